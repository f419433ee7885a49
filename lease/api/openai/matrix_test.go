package openai_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"macbatch/lease/api/openai"
)

// matrix is every route and what each class is answered on it. Upper-case words in
// a path are what the stage calls so. A route that has no row fails the test.
var matrix = []struct {
	route, path, project string
	want                 string // by class
}{
	{"POST /v1/files", "/v1/files", "", "200 200 403 403  200 403 403  401 401"},
	{"POST /v1/files", "/v1/files", "ours", "200 200 403 403  404 403 403  401 401"},
	{"GET /v1/files", "/v1/files", "", "200 200 200 403  200 200 403  401 401"},
	{"GET /v1/files", "/v1/files", "ours", "200 200 200 403  404 404 403  401 401"},
	{"GET /v1/files", "/v1/files?purpose=batch_output", "", "200 200 200 403  200 200 403  401 401"},
	{"GET /v1/files/{file}", "/v1/files/INPUT", "", "200 200 200 403  404 404 403  401 401"},
	{"GET /v1/files/{file}", "/v1/files/UNUSED", "", "200 200 200 403  404 404 403  401 401"},
	{"GET /v1/files/{file}", "/v1/files/OUTPUT", "", "200 200 200 403  404 404 403  401 401"},
	{"GET /v1/files/{file}", "/v1/files/OUTPUT", "theirs", "404 404 404 403  404 404 403  401 401"},
	{"GET /v1/files/{file}/content", "/v1/files/UNUSED/content", "", "200 200 200 403  404 404 403  401 401"},
	{"GET /v1/files/{file}/content", "/v1/files/OUTPUT/content", "", "200 200 200 403  404 404 403  401 401"},
	{"GET /v1/files/{file}/content", "/v1/files/ERRORS/content", "", "200 200 200 403  404 404 403  401 401"},
	{"DELETE /v1/files/{file}", "/v1/files/UNUSED", "", "200 200 403 403  404 403 403  401 401"},
	{"DELETE /v1/files/{file}", "/v1/files/INPUT", "", "200 200 403 403  404 403 403  401 401"},
	{"DELETE /v1/files/{file}", "/v1/files/OUTPUT", "", "200 200 403 403  404 403 403  401 401"},
	{"POST /v1/batches", "/v1/batches", "", "200 200 403 403  404 403 403  401 401"},
	{"POST /v1/batches", "/v1/batches", "ours", "200 200 403 403  404 403 403  401 401"},
	{"GET /v1/batches", "/v1/batches", "", "200 200 200 403  200 200 403  401 401"},
	{"GET /v1/batches/{batch}", "/v1/batches/BATCH", "", "200 200 200 403  404 404 403  401 401"},
	{"POST /v1/batches/{batch}/cancel", "/v1/batches/OPEN/cancel", "", "200 200 403 403  404 403 403  401 401"},
}

// TestMatrix: each class on each route. What is another project's is answered byte
// by byte as what is not there, and nothing of it is told.
func TestMatrix(t *testing.T) {
	rows := map[string]bool{}
	for _, row := range matrix {
		rows[row.route] = true
		for i, class := range classes {
			t.Run(row.route+" "+row.project+"/"+class, func(t *testing.T) {
				st := newStage(t)
				want := strings.Fields(row.want)[i]
				method, _, _ := strings.Cut(row.route, " ")
				ask := func(names map[string]string, project string) string {
					path, body, headers := row.path, "", []string{}
					for name, id := range names {
						path = strings.Replace(path, name, id, 1)
					}
					if project != "" {
						headers = []string{"OpenAI-Project", project}
					}
					switch row.route {
					case "POST /v1/files":
						contentType, b := form("purpose", "batch", "file", lines("m", "e"))
						body, headers = b, append(headers, "Content-Type", contentType)
					case "POST /v1/batches":
						body = creation(names["UNUSED"])
					}
					w := st.ask(class, method, path, body, headers...)
					return fmt.Sprintf("%d %v\n%s", w.Code, w.Header(), w.Body)
				}
				if strings.HasPrefix(class, "other") {
					absent := map[string]string{}
					for name, id := range st.names {
						if absent[name] = "gone"; strings.HasSuffix(id, "-2") || strings.HasSuffix(id, "-1") {
							absent[name] = id + "00"
						}
					}
					project := row.project
					if project == "ours" {
						project = "gone"
					}
					there, gone := ask(st.names, row.project), ask(absent, project)
					if want == "404" && there != gone {
						t.Errorf("what is not theirs is answered\n%s\nwhat is not there\n%s", there, gone)
					}
					for _, id := range st.names {
						if strings.Contains(there, id) {
							t.Errorf("the answer tells of %s:\n%s", id, there)
						}
					}
				}
				if got := ask(st.names, row.project); !strings.HasPrefix(got, want) {
					t.Errorf("answered %s, want %s", got, want)
				} else if want > "300" && !strings.Contains(got, `"error":{"message":"`) {
					t.Errorf("no error of the API: %s", got)
				}
			})
		}
	}
	for _, r := range openai.Routes() {
		if !rows[r.Method+" "+r.Pattern] {
			t.Errorf("%s %s has no row in the matrix", r.Method, r.Pattern)
		}
	}
}

// TestNoRoute: what lies beside the routes is not there, in the words of the API.
func TestNoRoute(t *testing.T) {
	st := newStage(t)
	for _, path := range []string{"/v1/files/", "/v1/batches/x/y", "/v1/files/" + st.names["OUTPUT"] + "/other"} {
		if w := st.ask("admin", "GET", path, ""); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"type":"invalid_request_error"`) {
			t.Errorf("GET %s = %d %s", path, w.Code, w.Body)
		}
	}
}
