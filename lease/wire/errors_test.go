package wire_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// sentinels are all the errors of the contract.
var sentinels = map[string]error{
	"ErrNotFound": lease.ErrNotFound, "ErrUnauthorized": lease.ErrUnauthorized, "ErrForbidden": lease.ErrForbidden,
	"ErrMalformed": lease.ErrMalformed, "ErrInvalid": lease.ErrInvalid, "ErrKeyReused": lease.ErrKeyReused,
	"ErrFenced": lease.ErrFenced, "ErrDuplicate": lease.ErrDuplicate, "ErrConflict": lease.ErrConflict,
	"ErrNotAllowed": lease.ErrNotAllowed, "ErrOverBudget": lease.ErrOverBudget, "ErrBudgetHeld": lease.ErrBudgetHeld, "ErrTwin": lease.ErrTwin, "ErrFull": lease.ErrFull,
	"ErrUnknownOutcome": lease.ErrUnknownOutcome, "ErrUnreachable": lease.ErrUnreachable,
	"ErrTooLarge": lease.ErrTooLarge, "ErrDigest": lease.ErrDigest, "ErrNeedBlob": lease.ErrNeedBlob, "ErrBusy": lease.ErrBusy,
}

// TestSentinelsAreAll fails when package lease has an error that the table lacks.
func TestSentinelsAreAll(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && sentinels[spec.Names[0].Name] == nil {
			t.Errorf("lease.%s is not on the wire", spec.Names[0].Name)
		}
		return true
	})
}

func TestErrorsSurvive(t *testing.T) {
	for name, want := range sentinels {
		w := httptest.NewRecorder()
		wire.WriteError(w, fmt.Errorf("cancel job %q: %w", "htb2k-1", want))
		got := wire.ReadError(w.Code, w.Body.Bytes())
		for other, err := range sentinels {
			if errors.Is(got, err) != errors.Is(want, err) { // one may be a kind of another
				t.Fatalf("%s came back as %v (%s)", name, got, other)
			}
		}
		if w.Code != wire.Status(want) || w.Code < 400 || w.Code == 500 {
			t.Fatalf("Status(%s) = %d, written %d", name, wire.Status(want), w.Code)
		}
	}
}

// TestErrorsHide: nothing but the sentinel's own words where more would tell of
// somebody else's things, or of the host.
func TestErrorsHide(t *testing.T) {
	for _, err := range []error{lease.ErrNotFound, lease.ErrUnauthorized, lease.ErrFull, lease.ErrUnknownOutcome, lease.ErrUnreachable, errors.New("boom")} {
		w := httptest.NewRecorder()
		wire.WriteError(w, fmt.Errorf("secret: %w", err))
		if strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "boom") {
			t.Fatalf("WriteError(%v) = %s", err, w.Body)
		}
	}
	w := httptest.NewRecorder()
	wire.WriteError(w, fmt.Errorf("params: no %w", lease.ErrInvalid))
	if got, want := w.Body.String(), `{"error":{"code":"invalid","message":"params: no invalid"}}`; got != want {
		t.Fatalf("WriteError = %s, want %s", got, want)
	}
}

func TestReadErrorOfOthers(t *testing.T) {
	tests := []struct {
		status int
		body   string
		want   error
	}{
		{502, `<html>bad gateway</html>`, nil},
		{404, `{"error":"not found"}`, nil},
		{404, `{"error":{"code":"","message":"x"}}`, nil},
		{200, `{"error":{"code":"not_found","message":"x"}}`, nil},
		{500, `{"error":{"code":"not_found","message":"x"}}`, lease.ErrUnknownOutcome},
		{500, `{"error":{"code":"internal","message":"internal error"}}`, lease.ErrUnknownOutcome},
		{418, `{"error":{"code":"teapot","message":"x"}}`, nil},
	}
	for _, tt := range tests {
		got := wire.ReadError(tt.status, []byte(tt.body))
		if !errors.Is(got, tt.want) {
			t.Fatalf("ReadError(%d, %s) = %v, want %v", tt.status, tt.body, got, tt.want)
		}
	}
}

func TestErrorMessageIsBounded(t *testing.T) {
	w := httptest.NewRecorder()
	wire.WriteError(w, fmt.Errorf("%s\xff: %w", strings.Repeat("é", 5000), lease.ErrInvalid))
	if err := wire.ReadError(w.Code, w.Body.Bytes()); !errors.Is(err, lease.ErrInvalid) || w.Body.Len() > 1200 {
		t.Fatalf("WriteError wrote %d bytes, read back as %v", w.Body.Len(), err)
	}
	w = httptest.NewRecorder()
	wire.WriteError(w, fmt.Errorf("a\xff: %w", lease.ErrInvalid))
	if err := wire.ReadError(w.Code, w.Body.Bytes()); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("WriteError of invalid UTF-8 wrote %s", w.Body)
	}
	w = httptest.NewRecorder()
	if err := wire.WriteJSON(w, 200, lease.Event{Reason: "a\xff"}); err != nil || !strings.Contains(w.Body.String(), "a\uFFFD") {
		t.Fatalf("WriteJSON of invalid UTF-8 = %v, %s", err, w.Body)
	}
	if err := wire.WriteJSON(w, 200, lease.Grant{Payload: []byte("{")}); err == nil {
		t.Fatal("WriteJSON of a broken payload = nil")
	}
}
