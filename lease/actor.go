package lease

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Role says which operations an actor may ask for.
type Role string

// The roles.
const (
	Admin      Role = "admin"
	Submitter  Role = "submitter"
	Reader     Role = "reader"
	WorkerRole Role = "worker"

	// Guest is who shows the secret of an invitation: it may join, and that only.
	// No actor is given this role.
	Guest Role = "guest"
)

// Roles lists the roles that actors are given.
var Roles = []Role{Admin, Submitter, Reader, WorkerRole}

// Actor is who asks: an identity with a role in some projects.
type Actor struct {
	ID       ActorID   `json:"id"`
	Role     Role      `json:"role"`
	Projects []Project `json:"projects,omitempty"` // an admin needs none
}

// Sees reports whether the actor may know of a project at all.
func (a *Actor) Sees(p Project) bool {
	return a.Role == Admin || a.Role != Guest && slices.Contains(a.Projects, p)
}

// May reports whether the actor's role includes that of another.
func (a *Actor) May(r Role) bool {
	switch a.Role {
	case Admin:
		return true
	case Submitter:
		return r == Submitter || r == Reader
	case Reader:
		return r == Reader
	case WorkerRole:
		return r == WorkerRole
	case Guest:
		return r == Guest
	}
	return false
}

// MaxScopeName bounds the name of a project or an actor, in bytes.
const MaxScopeName = 100

// Check reports what keeps p from being a new project's name: it is part of keys
// and of URLs.
func (p Project) Check() error { return checkName("project", string(p), "-._") }

// Check reports what keeps a from being a new actor's name. It has no "_": a
// token is cut there.
func (a ActorID) Check() error { return checkName("actor", string(a), "-.@") }

// Check reports what keeps k from being the name of a kind.
func (k Kind) Check() error { return checkName("kind", string(k), "-._") }

func checkName(what, s, marks string) error {
	bad := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(marks, r)
	}
	if s == "" || len(s) > MaxScopeName || !utf8.ValidString(s) || strings.ContainsRune(marks, rune(s[0])) || strings.ContainsFunc(s, bad) {
		return fmt.Errorf("%s name %q: up to %d bytes of letters, digits and %s, beginning with one of the former two: %w", what, s, MaxScopeName, marks, ErrInvalid)
	}
	return nil
}
