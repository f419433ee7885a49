package lease

// Role says which operations an actor may ask for.
type Role string

// The roles.
const (
	Admin      Role = "admin"
	Submitter  Role = "submitter"
	Reader     Role = "reader"
	WorkerRole Role = "worker"
)

// Actor is who asks: an identity with a role in some projects.
type Actor struct {
	ID       ActorID   `json:"id"`
	Role     Role      `json:"role"`
	Projects []Project `json:"projects,omitempty"` // an admin needs none
}

// Sees reports whether the actor may know of a project at all.
func (a *Actor) Sees(p Project) bool {
	if a.Role == Admin {
		return true
	}
	for _, q := range a.Projects {
		if q == p {
			return true
		}
	}
	return false
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
	}
	return false
}
