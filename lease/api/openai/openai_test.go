package openai_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/leasetest"
)

// TestResults: a batch that ended has a file for each outcome, of the lines of the
// API, and one that did not has none.
func TestResults(t *testing.T) {
	st := newStage(t)
	var b thing
	st.answer(&b, "reader", "GET", "/v1/batches/"+st.names["BATCH"], "")
	if b.Status != "completed" || string(b.Counts) != `{"total":2,"completed":1,"failed":1}` || b.OutputFileID != st.names["OUTPUT"] || b.ErrorFileID != st.names["ERRORS"] {
		t.Errorf("batch: %+v", b)
	}
	for file, want := range map[string]string{
		"OUTPUT": `"custom_id":"a","response":{"status_code":200,`,
		"ERRORS": `"custom_id":"b","response":null,"error":{"code":"context","message":"too long"}}`,
	} {
		text := st.ask("reader", "GET", "/v1/files/"+st.names[file]+"/content", "").Body.String()
		if strings.Count(text, "\n") != 1 || !strings.Contains(text, want) {
			t.Errorf("%s: %s", file, text)
		}
		var f thing
		st.answer(&f, "reader", "GET", "/v1/files/"+st.names[file], "")
		if f.Bytes != int64(len(text)) {
			t.Errorf("%s: %d bytes, want %d", file, f.Bytes, len(text))
		}
	}
	st.answer(&b, "reader", "GET", "/v1/batches/"+st.names["OPEN"], "")
	job := strings.TrimPrefix(st.names["OPEN"], "batch_")
	if w := st.ask("reader", "GET", "/v1/files/file-"+job+"-output/content", ""); b.Status != "in_progress" || w.Code != http.StatusNotFound {
		t.Errorf("a batch under way: %+v, its output: %d", b, w.Code)
	}
}

// TestSameBytes: whoever has the same bytes as another project knows nothing of it,
// and takes nothing from it.
func TestSameBytes(t *testing.T) {
	st := newStage(t)
	for _, file := range []string{st.names["UNUSED"], st.names["INPUT"]} {
		text := lines("m", "c")
		if file == st.names["INPUT"] {
			text = lines("m", "a", "b")
		}
		if got := st.upload("other submitter", text); got != file {
			t.Fatalf("uploaded %s, want %s", got, file)
		}
		var d thing
		if st.answer(&d, "other submitter", "DELETE", "/v1/files/"+file, ""); !d.Deleted {
			t.Errorf("delete %s: %+v: somebody's batch shows", file, d)
		}
		if w := st.ask("other reader", "GET", "/v1/files/"+file+"/content", ""); w.Code != http.StatusNotFound {
			t.Errorf("deleted, and still %d", w.Code)
		}
		if w := st.ask("reader", "GET", "/v1/files/"+file+"/content", ""); w.Body.String() != text {
			t.Errorf("ours: %d %s", w.Code, w.Body)
		}
	}
	var d thing
	st.answer(&d, "submitter", "DELETE", "/v1/files/"+st.names["UNUSED"], "")
	rest := 0
	st.check(st.blobs.List(counting(&rest)))
	if !d.Deleted || rest != 2 {
		t.Errorf("deleted %v, %d blobs are left, want 2: the inputs of the batches", d.Deleted, rest)
	}
}

// TestRestart: of what no batch uses only memory knew.
func TestRestart(t *testing.T) {
	st := newStage(t)
	st.stop()
	st.start()
	for file, want := range map[string]int{"UNUSED": 404, "INPUT": 200, "OUTPUT": 200} {
		if w := st.ask("reader", "GET", "/v1/files/"+st.names[file], ""); w.Code != want {
			t.Errorf("%s = %d %s, want %d", file, w.Code, w.Body, want)
		}
	}
	if got := st.upload("submitter", lines("m", "c")); got != st.names["UNUSED"] {
		t.Errorf("uploaded again: %s", got)
	}
}

// TestForm: files in any order of the fields; what is no such form is refused with
// its reason.
func TestForm(t *testing.T) {
	st := newStage(t)
	good := lines("m", "f")
	for _, c := range []struct {
		fields []string
		status int
		want   string
	}{
		{[]string{"file", good, "other", "x", "purpose", "batch"}, 200, `"status":"processed"`},
		{[]string{"purpose", "batch", "file", "\ufeff" + strings.ReplaceAll(good, "\n", "\r\n")}, 200, `"status":"processed"`},
		{[]string{"file", good}, 400, `"param":"purpose"`},
		{[]string{"purpose", "assistants", "file", good}, 400, `"param":"purpose"`},
		{[]string{"purpose", "batch"}, 400, `file: is missing`},
		{[]string{"purpose", "batch", "file", good, "file", good}, 400, `file: there are two`},
		{[]string{"purpose", "batch", "file", ""}, 400, `there are no items in it`},
		{[]string{"purpose", "batch", "file", strings.Repeat("{\n", 20)}, 400, `line 8: `},
		{[]string{"purpose", "batch", "file", strings.Repeat("{\n", 20)}, 400, `and 12 more`},
		{[]string{"purpose", "batch", "file", strings.Replace(good, "/v1/chat/completions", "/v1/moderations", 1)}, 400, `has no batches here`},
		{[]string{"purpose", "batch", "file", strings.Replace(good, `"messages"`, `"stream":true,"messages"`, 1)}, 400, `can't stream`},
		{[]string{"purpose", "batch", "file", strings.Repeat(" ", 2<<20)}, 413, `"code":"too_large"`},
	} {
		contentType, body := form(c.fields...)
		w := st.ask("submitter", "POST", "/v1/files", body, "Content-Type", contentType)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("form %.200q = %d %s, want %d with %s", c.fields, w.Code, w.Body, c.status, c.want)
		}
	}
	contentType, body := form("purpose", "batch", "file", good)
	if w := st.ask("submitter", "POST", "/v1/files", body[:len(body)-60], "Content-Type", contentType); w.Code != http.StatusBadRequest {
		t.Errorf("half a form = %d %s", w.Code, w.Body)
	}
	if w := st.ask("submitter", "POST", "/v1/files", "{}", "Content-Type", "application/json"); w.Code != http.StatusBadRequest {
		t.Errorf("no form = %d %s", w.Code, w.Body)
	}
}

// TestCreate refuses what can be no batch.
func TestCreate(t *testing.T) {
	st := newStage(t)
	plain := []byte(`{"custom_id":"a","input":"x"}` + "\n")
	put(st, "ours", plain)
	for body, want := range map[string]string{
		`[]`: "400 malformed", `{"endpoint":"/v1/chat/completions"}`: "404 not_found",
		creation("file-1"):           "404 not_found",
		creation(st.names["OUTPUT"]): "400 invalid",
		creation(idOf(plain)):        "400 invalid",
		strings.Replace(creation(st.names["UNUSED"]), "/v1/chat/completions", "/v1/embeddings", 1):         "400 invalid",
		strings.Replace(creation(st.names["UNUSED"]), `"unknown":1`, `"metadata":{"a":1}`, 1):              "400 invalid",
		strings.Replace(creation(st.names["UNUSED"]), `"unknown":1`, `"metadata":{"`+long(65)+`":"b"}`, 1): "400 invalid",
		`{"x":"` + long(300<<10) + `"}`: "413 too_large",
	} {
		w := st.ask("submitter", "POST", "/v1/batches", body)
		status, code, _ := strings.Cut(want, " ")
		if w.Code != number(status) || !strings.Contains(w.Body.String(), `"code":"`+code+`"`) {
			t.Errorf("%.200s = %d %s, want %s", body, w.Code, w.Body, want)
		}
	}
}

// TestPages: no page leaves out or repeats what is listed, whatever its length.
func TestPages(t *testing.T) {
	st := newStage(t)
	for _, path := range []string{"/v1/files", "/v1/batches", "/v1/files?purpose=batch", "/v1/files?purpose=batch_output"} {
		var whole thing
		st.answer(&whole, "reader", "GET", path, "")
		for _, limit := range []string{"1", "2", "3"} {
			var got []string
			for after := ""; ; {
				sep := "?"
				if strings.Contains(path, "?") {
					sep = "&"
				}
				var page struct {
					Data    []thing
					HasMore bool   `json:"has_more"`
					LastID  string `json:"last_id"`
				}
				st.answer(&page, "reader", "GET", path+sep+"limit="+limit+"&after="+after, "")
				for _, x := range page.Data {
					got = append(got, x.ID)
				}
				if after = page.LastID; !page.HasMore {
					break
				}
			}
			var want []string
			for _, x := range whole.Data {
				want = append(want, x.ID)
			}
			if strings.Join(got, " ") != strings.Join(want, " ") || len(want) < 2 {
				t.Errorf("%s in pages of %s: %v, want %v", path, limit, got, want)
			}
		}
	}
	if w := st.ask("reader", "GET", "/v1/batches?limit=0", ""); w.Code != http.StatusBadRequest {
		t.Errorf("limit 0 = %d", w.Code)
	}
}

// TestScope: the store itself tells nobody of another project's inputs, and what a
// project deletes does not depend on another one's batches.
func TestScope(t *testing.T) {
	st := newStage(t)
	theirs, _ := st.s.Actor("other-submitter")
	d, err := lease.ParseDigest(strings.TrimPrefix(st.names["UNUSED"], "file-"))
	st.check(err)
	if _, _, err := st.s.OpenUpload(theirs, "ours", d); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("OpenUpload: %v", err)
	}
	if _, err := st.s.Uploads(theirs, "ours"); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("Uploads: %v", err)
	}
	if err := st.s.DropUpload(theirs, "ours", d); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("DropUpload: %v", err)
	}
	put(st, "theirs", []byte(lines("m", "a", "b")))
	var del thing
	if st.answer(&del, "admin", "DELETE", "/v1/files/"+st.names["INPUT"], "", "OpenAI-Project", "theirs"); !del.Deleted {
		t.Error("what is theirs is kept for ours")
	}
}

// TestOtherJobs: a job that came another way is no batch.
func TestOtherJobs(t *testing.T) {
	st := newStage(t)
	plain := []byte(`{"custom_id":"a","input":"x"}` + "\n")
	put(st, "ours", plain)
	id, err := st.s.As(leasetest.Admin).Submit(t.Context(), lease.Submission{
		Project: "ours", Kind: "generate", Params: []byte(`{"model":"m"}`), Input: lease.Input{Digest: lease.DigestOf(plain), Bytes: int64(len(plain))},
	})
	st.check(err)
	if w := st.ask("submitter", "POST", "/v1/batches/batch_"+id.String()+"/cancel", ""); w.Code != http.StatusNotFound {
		t.Errorf("cancel = %d %s", w.Code, w.Body)
	}
	if w := st.ask("reader", "GET", "/v1/batches", ""); strings.Contains(w.Body.String(), id.String()) {
		t.Errorf("it is listed: %s", w.Body)
	}
}
