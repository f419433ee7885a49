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

	// RotateActor replaces an actor's token. The old one is good no more.
	RotateActor(ctx context.Context, id ActorID, token Digest) error

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
	Used    time.Time `json:"used,omitzero"` // its token, since the control plane started

	Events uint32 `json:"events"`
	Last   uint64 `json:"last"`
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
