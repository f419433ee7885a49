package lease

import (
	"context"
	"time"
)

// Registry is the part of a Control that keeps projects and actors. All but
// Projects is an admin's. What is asked for twice is done once.
type Registry interface {
	// Projects lists the projects that the actor sees, by name.
	Projects(ctx context.Context) ([]Scope, error)

	// CreateProject opens a new project. One that exists stays as it is.
	CreateProject(ctx context.Context, p Project) error

	// CloseProject ends a project for new jobs and grants: what is leased may
	// still be completed, what is there may be read.
	CloseProject(ctx context.Context, p Project) error

	// OpenProject opens a closed project again.
	OpenProject(ctx context.Context, p Project) error

	// Actors lists all actors, by name.
	Actors(ctx context.Context) ([]Identity, error)

	// AddActor adds an actor whose token has this SHA-256. ErrNotAllowed when
	// the name was ever another's: names are not given twice.
	AddActor(ctx context.Context, a Actor, token Digest) error

	// RotateActor replaces an actor's token. The old one is good for as long as
	// overlap says, up to MaxOverlap; the one before that is good no more.
	RotateActor(ctx context.Context, id ActorID, token Digest, overlap time.Duration) error

	// Invite adds an actor that has no token yet: who shows the secret in time
	// joins as that actor. ErrNotAllowed when the name was ever another's, unless
	// the invitation is one to join again.
	Invite(ctx context.Context, i Invitation) (Reach, error)

	// Join gives the caller, who was invited, a token with this SHA-256, and tells
	// who it is now. An invitation is good for one token: asked again with it the
	// answer is the same, with another one it is ErrUnauthorized.
	Join(ctx context.Context, token Digest) (Actor, error)

	// RevokeActor ends an actor at once, for ever: what it holds lapses, what it
	// still reports is not heard.
	RevokeActor(ctx context.Context, id ActorID) error

	// Assign lets an actor see a project and act in it.
	Assign(ctx context.Context, id ActorID, p Project) error

	// Unassign ends that at once: what the actor holds of the project lapses.
	Unassign(ctx context.Context, id ActorID, p Project) error
}

// Scope is a project and where it stands.
type Scope struct {
	Project Project   `json:"project"`
	Closed  bool      `json:"closed,omitempty"`
	Created time.Time `json:"created"`

	Events uint32 `json:"events"`
	Last   uint64 `json:"last"`
}

// Identity is an actor as the store knows it. Its token's hash is not shown.
type Identity struct {
	Actor
	Created time.Time `json:"created"`
	Revoked bool      `json:"revoked,omitempty"`
	Used    time.Time `json:"used,omitzero"`    // its token, since the control plane started
	Absent  bool      `json:"absent,omitempty"` // it was invited and never joined
	Invited time.Time `json:"invited,omitzero"` // an invitation is open until then
	Former  time.Time `json:"former,omitzero"`  // its token before this one is good until then

	Events uint32 `json:"events"`
	Last   uint64 `json:"last"`
}

// The longest times of credentials.
const (
	MaxInvited = 24 * time.Hour      // from an invitation to joining
	MaxOverlap = 30 * 24 * time.Hour // of a token and the one that replaces it
	JoinAgain  = time.Hour           // that a token stays good for whose actor joined again
)

// Invitation lets who knows a secret become an actor, once and for some time.
type Invitation struct {
	Actor
	Secret Digest        `json:"secret"`          // its SHA-256
	For    time.Duration `json:"for_ns"`          // up to MaxInvited
	Again  bool          `json:"again,omitempty"` // an actor that exists; its role and projects stay
}

// Reach tells how a control plane is reached from elsewhere. It is known to what
// listens there, not to the store.
type Reach struct {
	URLs []string `json:"urls,omitempty"`
	Pin  string   `json:"pin,omitempty"` // SHA-256 of its public key, hexadecimal; empty: no TLS
}

// Uploaded is an input that a submitter uploaded into a project, or that a job of
// it works on.
type Uploaded struct {
	Digest Digest
	Bytes  int64
	At     time.Time // last; zero: before the control plane started
}

// Upload says which bytes come, and by what right: a worker names the lease that
// it holds, or whose spooled report it delivers; a submitter the project whose
// job will need them.
type Upload struct {
	Digest  Digest
	Size    int64
	Shard   ShardID // with Fence and Token of its grant, or
	Fence   Fence
	Token   string
	Project Project
}
