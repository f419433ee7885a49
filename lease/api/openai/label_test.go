package openai_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestFileKeepsWhatWasSaid: its name, time and expiry, in every answer; the name
// also beyond a restart where a batch needs the file.
func TestFileKeepsWhatWasSaid(t *testing.T) {
	st := newStage(t)
	text := lines("m", "n1", "n2")
	began := time.Now().Unix()
	contentType, body := form("purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "3600", "file=mails of may.jsonl", text)
	var up thing
	st.answer(&up, "submitter", "POST", "/v1/files", body, "Content-Type", contentType)
	if up.Filename != "mails of may.jsonl" || up.Bytes != int64(len(text)) || up.Purpose != "batch" || up.CreatedAt < began ||
		up.ExpiresAt == nil || *up.ExpiresAt != up.CreatedAt+3600 {
		t.Fatalf("uploaded: %+v", up)
	}
	check := func(got thing) {
		t.Helper()
		if got.ID != up.ID || got.Filename != up.Filename || got.Bytes != up.Bytes || got.Purpose != up.Purpose {
			t.Errorf("= %+v, want %+v", got, up)
		}
	}
	var got, list thing
	st.answer(&got, "reader", "GET", "/v1/files/"+up.ID, "")
	check(got)
	if got.CreatedAt != up.CreatedAt || got.ExpiresAt == nil || *got.ExpiresAt != *up.ExpiresAt {
		t.Errorf("retrieved: %+v, want %+v", got, up)
	}
	st.answer(&list, "reader", "GET", "/v1/files?purpose=batch&limit=1", "")
	if len(list.Data) != 1 {
		t.Fatalf("listed: %+v", list)
	}
	check(list.Data[0])

	var b thing
	st.answer(&b, "submitter", "POST", "/v1/batches", strings.Replace(creation(up.ID), `"unknown":1`, `"metadata":{"owner":"me"}`, 1))
	if b.Metadata["owner"] != "me" || b.ExpiresAt == nil || *b.ExpiresAt != b.CreatedAt+24*3600 || string(b.Counts) != `{"total":2,"completed":0,"failed":0}` {
		t.Errorf("batch: %+v", b)
	}
	st.stop()
	st.start()
	st.answer(&got, "reader", "GET", "/v1/files/"+up.ID, "")
	if check(got); got.CreatedAt < began {
		t.Errorf("after a restart: %+v", got)
	}
	var again thing
	if st.answer(&again, "reader", "GET", "/v1/batches/"+b.ID, ""); again.Metadata["owner"] != "me" {
		t.Errorf("after a restart: %+v", again)
	}
}

// TestOddFileNames: a name is text, however it looks; one without is given one.
func TestOddFileNames(t *testing.T) {
	st := newStage(t)
	for name, want := range map[string]string{
		"../../etc/passwd": "passwd", "a b.jsonl": "a b.jsonl", "": "in.jsonl", "\u00e4\u202e.jsonl": "\u00e4\u202e.jsonl", strings.Repeat("\u00e4", 300): strings.Repeat("\u00e4", 100),
	} {
		field := "file"
		if name != "" {
			field += "=" + name
		}
		contentType, body := form("purpose", "batch", field, lines("m", "odd"))
		var up thing
		if st.answer(&up, "submitter", "POST", "/v1/files", body, "Content-Type", contentType); up.Filename != want {
			t.Errorf("%q is called %q, want %q", name, up.Filename, want)
		}
	}
}

func TestExpiresAfter(t *testing.T) {
	st := newStage(t)
	for _, c := range []struct{ anchor, seconds, param string }{
		{"created_at", "3599", "expires_after[seconds]"}, {"created_at", "2592001", "expires_after[seconds]"}, {"created_at", "9223372036854775807", "expires_after[seconds]"},
		{"created_at", "-1", "expires_after[seconds]"}, {"created_at", "", "expires_after[seconds]"}, {"created_at", "1h", "expires_after[seconds]"},
		{"last_active_at", "3600", "expires_after[anchor]"}, {"", "3600", "expires_after[anchor]"},
	} {
		contentType, body := form("purpose", "batch", "file", lines("m", "x"), "expires_after[anchor]", c.anchor, "expires_after[seconds]", c.seconds)
		w := st.ask("submitter", "POST", "/v1/files", body, "Content-Type", contentType)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"param":"`+c.param+`"`) {
			t.Errorf("%+v = %d %s", c, w.Code, w.Body)
		}
	}
}

// TestExpired: a file whose time is over is found nowhere; its batch ends, and who
// uploads it again has it again.
func TestExpired(t *testing.T) {
	st := newStage(t)
	text := lines("m", "late")
	contentType, body := form("purpose", "batch", "file", text, "expires_after[anchor]", "created_at", "expires_after[seconds]", "3600")
	var up, b, list thing
	st.answer(&up, "submitter", "POST", "/v1/files", body, "Content-Type", contentType)
	st.answer(&b, "submitter", "POST", "/v1/batches", creation(up.ID))
	st.later(time.Hour)
	for _, ask := range [][2]string{{"GET", ""}, {"GET", "/content"}, {"DELETE", ""}} {
		if w := st.ask("submitter", ask[0], "/v1/files/"+up.ID+ask[1], ""); w.Code != http.StatusNotFound {
			t.Errorf("%v of an expired file = %d", ask, w.Code)
		}
	}
	if w := st.ask("submitter", "POST", "/v1/batches", strings.Replace(creation(up.ID), `"unknown":1`, `"metadata":{"a":"b"}`, 1)); w.Code != http.StatusNotFound {
		t.Errorf("a batch of an expired file = %d %s", w.Code, w.Body)
	}
	st.answer(&list, "reader", "GET", "/v1/files?purpose=batch", "")
	for _, f := range list.Data {
		if f.ID == up.ID {
			t.Error("an expired file is listed")
		}
	}
	st.work()
	if st.answer(&b, "reader", "GET", "/v1/batches/"+b.ID, ""); b.Status != "completed" || b.OutputFileID == "" {
		t.Errorf("its batch: %+v", b)
	}
	if st.upload("submitter", text) != up.ID {
		t.Error("uploaded again, it is another")
	}
	if w := st.ask("reader", "GET", "/v1/files/"+up.ID+"/content", ""); w.Body.String() != text {
		t.Errorf("uploaded again: %d %s", w.Code, w.Body)
	}
}
