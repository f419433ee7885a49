package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/wire"
)

// Uploads is what a store knows of list inputs. Its methods enforce scope.
type Uploads interface {
	// Uploads lists the inputs that were uploaded into a project, newest first.
	Uploads(a lease.Actor, p lease.Project) ([]lease.Uploaded, error)

	// OpenUpload opens an input that a project has.
	OpenUpload(a lease.Actor, p lease.Project, d lease.Digest) (lease.Uploaded, io.ReadCloser, error)

	// DropUpload takes an input from a project. No job of it may work on it.
	DropUpload(a lease.Actor, p lease.Project, d lease.Digest) error
}

// Route is one operation, and the role that may ask for it.
type Route struct {
	Method, Pattern string // as net/http's
	Role            lease.Role
	serve           func(*call, *http.Request) (any, error)
}

// Routes lists every operation.
func Routes() []Route { return slices.Clone(routes) }

var routes = []Route{
	{"POST", "/v1/files", lease.Submitter, (*call).upload},
	{"GET", "/v1/files", lease.Reader, (*call).files},
	{"GET", "/v1/files/{file}", lease.Reader, (*call).file},
	{"GET", "/v1/files/{file}/content", lease.Reader, (*call).content},
	{"DELETE", "/v1/files/{file}", lease.Submitter, (*call).drop},
	{"POST", "/v1/batches", lease.Submitter, (*call).create},
	{"GET", "/v1/batches", lease.Reader, (*call).batches},
	{"GET", "/v1/batches/{batch}", lease.Reader, (*call).batch},
	{"POST", "/v1/batches/{batch}/cancel", lease.Submitter, (*call).cancel},
}

// call is one request being answered.
type call struct {
	ctx     context.Context
	w       http.ResponseWriter
	actor   lease.Actor
	control lease.Control
	uploads Uploads
	labels  *labels
	project lease.Project // that the request names; "": none
	err     error
}

type callKey struct{}

// Beside serves the Batch API beside the protocol, by the clock now; nil: the system's.
func Beside(u Uploads, now func() time.Time) *api.Beside {
	if now == nil {
		now = time.Now
	}
	mux, names := http.NewServeMux(), newLabels(now)
	for _, rt := range routes {
		mux.HandleFunc(rt.Method+" "+rt.Pattern, func(_ http.ResponseWriter, r *http.Request) {
			c := r.Context().Value(callKey{}).(*call)
			c.err = c.answer(r, rt)
		})
	}
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		r.Context().Value(callKey{}).(*call).err = lease.ErrNotFound
	})
	return &api.Beside{
		Prefixes: []string{"/v1/files", "/v1/batches"},
		Fail:     fail,
		Serve: func(w http.ResponseWriter, r *http.Request, a lease.Actor, ctl lease.Control) error {
			c := &call{ctx: r.Context(), w: w, actor: a, control: ctl, uploads: u, labels: names, project: lease.Project(r.Header.Get("OpenAI-Project"))}
			mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
			return c.err
		},
	}
}

func (c *call) answer(r *http.Request, rt Route) error {
	if !c.actor.May(rt.Role) {
		return fmt.Errorf("%s %s: %w", rt.Method, rt.Pattern, lease.ErrForbidden)
	}
	if c.project != "" && !c.actor.Sees(c.project) {
		return fmt.Errorf("project %q: %w", c.project, lease.ErrNotFound)
	}
	out, err := rt.serve(c, r)
	if err != nil || out == nil { // nil: it streamed
		return err
	}
	return wire.WriteJSON(c.w, http.StatusOK, out)
}

// projects are those in which files are looked for; new ones go to the first.
func (c *call) projects() []lease.Project {
	switch {
	case c.project != "":
		return []lease.Project{c.project}
	case len(c.actor.Projects) == 0 && c.actor.Role == lease.Admin:
		return []lease.Project{lease.DefaultProject}
	}
	return c.actor.Projects
}

// fault is an error that names the field of the request it is about.
type fault struct {
	param string
	err   error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// invalid refuses what a field of the request says.
func invalid(param, format string, args ...any) error {
	return &fault{param, fmt.Errorf(param+": "+format+": %w", append(args, lease.ErrInvalid)...)}
}

type failure struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	} `json:"error"`
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	var body failure
	status := 0
	status, body.Error.Code, body.Error.Message = wire.Explain(err)
	if f, ok := errors.AsType[*fault](err); ok {
		body.Error.Param = &f.param
	}
	switch {
	case status == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case status == http.StatusUnprocessableEntity:
		status = http.StatusBadRequest
	}
	if body.Error.Type = "invalid_request_error"; status >= http.StatusInternalServerError {
		body.Error.Type = "server_error"
	}
	wire.WriteJSON(w, status, body) //nolint:errcheck // strings always have a JSON
}

// maxJSON is how many bytes of JSON a request may have.
const maxJSON = 256 << 10

// decode reads a request's body, and ignores what it does not know.
func decode(r *http.Request, into any) error {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxJSON+1))
	switch {
	case err != nil:
		return err
	case len(b) > maxJSON:
		return fmt.Errorf("body over %d bytes: %w", maxJSON, lease.ErrTooLarge)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("read JSON: %w: %w", err, lease.ErrMalformed)
	}
	return nil
}

// list is a page of things.
type list[T any] struct {
	Object  string  `json:"object"`
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

func page[T any](data []T, limit int, id func(*T) string) list[T] {
	l := list[T]{Object: "list", Data: data, HasMore: len(data) > limit}
	if l.HasMore {
		l.Data = data[:limit]
	}
	if n := len(l.Data); n > 0 {
		first, last := id(&l.Data[0]), id(&l.Data[n-1])
		l.FirstID, l.LastID = &first, &last
	}
	return l
}

// limit reads how many things a page may have.
func limit(r *http.Request, usual, most int) (int, error) {
	s := r.URL.Query().Get("limit")
	if s == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, invalid("limit", "%.100q is not 1 to %d", s, most)
	}
	return n, nil
}
