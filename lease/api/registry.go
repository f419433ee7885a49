package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"macbatch/lease"
)

// The bodies of what keeps projects and actors.
type (
	scopeList struct {
		Projects []lease.Scope `json:"projects"`
	}
	newProject struct {
		Project lease.Project `json:"project"`
	}
	identityList struct {
		Actors []lease.Identity `json:"actors"`
	}
	newActor struct {
		lease.Actor
		Token lease.Digest `json:"token"` // its SHA-256
	}
	newToken struct {
		Token   lease.Digest  `json:"token"`
		Overlap time.Duration `json:"overlap_ns,omitempty"`
	}
	joining struct {
		Token lease.Digest `json:"token"`
	}
)

var registryRoutes = []route{
	{Route{"GET", "/v1/projects", anyone, true}, (*call).projects},
	{Route{"POST", "/v1/projects", admin, false}, (*call).createProject},
	{Route{"POST", "/v1/projects/{project}/close", admin, false}, (*call).closeProject},
	{Route{"POST", "/v1/projects/{project}/open", admin, false}, (*call).openProject},
	{Route{"PUT", "/v1/projects/{project}/actors/{actor}", admin, false}, (*call).assign},
	{Route{"DELETE", "/v1/projects/{project}/actors/{actor}", admin, false}, (*call).unassign},
	{Route{"GET", "/v1/actors", admin, false}, (*call).actors},
	{Route{"POST", "/v1/actors", admin, false}, (*call).addActor},
	{Route{"POST", "/v1/actors/{actor}/revoke", admin, false}, (*call).revokeActor},
	{Route{"PUT", "/v1/actors/{actor}/token", admin, false}, (*call).rotateActor},
	{Route{"POST", "/v1/invitations", admin, false}, (*call).invite},
	{Route{"POST", "/v1/join", guest, false}, (*call).join},
}

func (c *call) projects(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	list, err := c.control.Projects(r.Context())
	return scopeList{list}, err
}

func (c *call) createProject(r *http.Request) (any, error) {
	var p newProject
	if err := c.decode(r, maxSmall, &p); err != nil {
		return nil, err
	}
	return nil, c.control.CreateProject(r.Context(), p.Project)
}

func (c *call) closeProject(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	return nil, c.control.CloseProject(r.Context(), lease.Project(r.PathValue("project")))
}

func (c *call) openProject(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	return nil, c.control.OpenProject(r.Context(), lease.Project(r.PathValue("project")))
}

func (c *call) assign(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	return nil, c.control.Assign(r.Context(), lease.ActorID(r.PathValue("actor")), lease.Project(r.PathValue("project")))
}

func (c *call) unassign(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	return nil, c.control.Unassign(r.Context(), lease.ActorID(r.PathValue("actor")), lease.Project(r.PathValue("project")))
}

func (c *call) actors(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	list, err := c.control.Actors(r.Context())
	return identityList{list}, err
}

func (c *call) addActor(r *http.Request) (any, error) {
	var a newActor
	if err := c.decode(r, maxSmall, &a); err != nil {
		return nil, err
	}
	return nil, c.control.AddActor(r.Context(), a.Actor, a.Token)
}

func (c *call) revokeActor(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	return nil, c.control.RevokeActor(r.Context(), lease.ActorID(r.PathValue("actor")))
}

func (c *call) rotateActor(r *http.Request) (any, error) {
	var t newToken
	if err := c.decode(r, maxSmall, &t); err != nil {
		return nil, err
	}
	return nil, c.control.RotateActor(r.Context(), lease.ActorID(r.PathValue("actor")), t.Token, t.Overlap)
}

func (c *call) invite(r *http.Request) (any, error) {
	var i lease.Invitation
	if err := c.decode(r, maxSmall, &i); err != nil {
		return nil, err
	}
	out, err := c.control.Invite(r.Context(), i)
	if c.h.Reach != nil {
		out = c.h.Reach()
	}
	return out, err
}

func (c *call) join(r *http.Request) (any, error) {
	var j joining
	if err := c.decode(r, maxSmall, &j); err != nil {
		return nil, err
	}
	out, err := c.control.Join(r.Context(), j.Token)
	return out, err
}

func projectPath(p lease.Project) string { return "/v1/projects/" + url.PathEscape(string(p)) }
func actorPath(id lease.ActorID) string  { return "/v1/actors/" + url.PathEscape(string(id)) }

// Projects implements lease.Registry.
func (c *Client) Projects(ctx context.Context) ([]lease.Scope, error) {
	var out scopeList
	err := c.get(ctx, "/v1/projects", nil, &out)
	return out.Projects, err
}

// CreateProject implements lease.Registry.
func (c *Client) CreateProject(ctx context.Context, p lease.Project) error {
	return c.call(ctx, request{method: http.MethodPost, path: "/v1/projects", json: newProject{p}}, nil)
}

// CloseProject implements lease.Registry.
func (c *Client) CloseProject(ctx context.Context, p lease.Project) error {
	return c.call(ctx, request{method: http.MethodPost, path: projectPath(p) + "/close"}, nil)
}

// OpenProject implements lease.Registry.
func (c *Client) OpenProject(ctx context.Context, p lease.Project) error {
	return c.call(ctx, request{method: http.MethodPost, path: projectPath(p) + "/open"}, nil)
}

// Assign implements lease.Registry.
func (c *Client) Assign(ctx context.Context, id lease.ActorID, p lease.Project) error {
	return c.call(ctx, request{method: http.MethodPut, path: projectPath(p) + "/actors/" + url.PathEscape(string(id))}, nil)
}

// Unassign implements lease.Registry.
func (c *Client) Unassign(ctx context.Context, id lease.ActorID, p lease.Project) error {
	return c.call(ctx, request{method: http.MethodDelete, path: projectPath(p) + "/actors/" + url.PathEscape(string(id))}, nil)
}

// Actors implements lease.Registry.
func (c *Client) Actors(ctx context.Context) ([]lease.Identity, error) {
	var out identityList
	err := c.get(ctx, "/v1/actors", nil, &out)
	return out.Actors, err
}

// AddActor implements lease.Registry.
func (c *Client) AddActor(ctx context.Context, a lease.Actor, token lease.Digest) error {
	return c.call(ctx, request{method: http.MethodPost, path: "/v1/actors", json: newActor{a, token}}, nil)
}

// RotateActor implements lease.Registry.
func (c *Client) RotateActor(ctx context.Context, id lease.ActorID, token lease.Digest, overlap time.Duration) error {
	return c.call(ctx, request{method: http.MethodPut, path: actorPath(id) + "/token", json: newToken{token, overlap}}, nil)
}

// Invite implements lease.Registry.
func (c *Client) Invite(ctx context.Context, i lease.Invitation) (lease.Reach, error) {
	var out lease.Reach
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/invitations", json: i}, &out)
	return out, err
}

// Join implements lease.Registry. The client's token is the invitation's secret.
func (c *Client) Join(ctx context.Context, token lease.Digest) (lease.Actor, error) {
	var out lease.Actor
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/join", json: joining{token}}, &out)
	return out, err
}

// RevokeActor implements lease.Registry.
func (c *Client) RevokeActor(ctx context.Context, id lease.ActorID) error {
	return c.call(ctx, request{method: http.MethodPost, path: actorPath(id) + "/revoke"}, nil)
}
