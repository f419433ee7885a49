package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// listCases are faults that users of comparable programs met with model servers (L)
// and with JSON Lines (J), and the tests that show what becomes of them here: a file
// of this repository, and words of it.
var listCases = []struct {
	row, what string
	tests     [][2]string
}{
	{"L1", "a prompt longer than the context is refused, never cut", [][2]string{
		{"summarize/model/ollama/real_test.go", `"prompt too long":`},
		{"summarize/model/ollama/whole_test.go", "func TestOldServerCuts"},
		{"summarize/model/openai/whole_test.go", "func TestSilentCut"},
		{"lease/worker/kinds/real_test.go", `want := []string{"", "", "", "", codeOverflow}`},
	}},
	{"L2", "an array with one bad text, or an answer with a vector too few, empty or not finite, costs no other item", [][2]string{
		{"lease/worker/kinds/list_test.go", "func TestGuiltyItemAlone"},
		{"summarize/model/ollama/fault_test.go", "func TestEmbedFaults"},
		{"summarize/model/server_test.go", "func TestCheckVectors"},
	}},
	{"L3", "structured output that was cut is told as such", [][2]string{
		{"summarize/model/ollama/real_test.go", `"cut within its structure":`},
		{"lease/worker/kinds/list_test.go", "codeTruncated}"},
	}},
	{"L4", "a job is of one digest where workers have two", [][2]string{
		{"cmd/macbatch/testdata/list/digests.txtar", "none is done by the other's model"},
		{"lease/worker/kinds/list_test.go", "func TestPinnedDigest"},
	}},
	{"J1", "lines up to 32 MiB; beyond, an error with the line", [][2]string{
		{"lease/item/item_test.go", "func TestLongLines"},
		{"cmd/macbatch/field_files_test.go", `name: "10 MB"`},
		{"cmd/macbatch/field_files_test.go", `name: "33 MB"`},
	}},
	{"J2", "marks, encodings and line ends", [][2]string{
		{"cmd/macbatch/field_files_test.go", `name: "byte order mark"`},
		{"cmd/macbatch/field_files_test.go", `name: "UTF-16 little"`},
		{"cmd/macbatch/field_files_test.go", `name: "CRLF"`},
		{"cmd/macbatch/field_files_test.go", `name: "CR alone"`},
		{"cmd/macbatch/field_files_test.go", `name: "no final end"`},
		{"cmd/macbatch/field_files_test.go", `name: "empty"`},
	}},
	{"J3", "a custom_id twice is refused with both lines", [][2]string{
		{"cmd/macbatch/field_files_test.go", `name: "the same id"`},
		{"lease/item/item_test.go", "func TestAllProblemsAreTold"},
	}},
	{"J4", "all problems are told, nothing is queued", [][2]string{
		{"cmd/macbatch/field_files_test.go", `name: "comma within"`},
		{"cmd/macbatch/field_files_test.go", `name: "quotes of print"`},
		{"cmd/macbatch/field_files_test.go", `name: "array of lines"`},
		{"cmd/macbatch/field_files_test.go", `name: "indented"`},
		{"cmd/macbatch/field_files_test.go", `name: "two on a line"`},
		{"cmd/macbatch/field_files_test.go", `name: "cut off"`},
		{"cmd/macbatch/field_files_test.go", `name: "NaN"`},
		{"cmd/macbatch/testdata/list/far.txtar", "3 problems in the input; nothing was queued"},
	}},
	{"J5", "bodies come through byte for byte, or are refused", [][2]string{
		{"cmd/macbatch/field_files_test.go", `name: "numbers"`},
		{"cmd/macbatch/field_files_test.go", `name: "blanks and escapes in a body"`},
		{"cmd/macbatch/field_files_test.go", `name: "a name twice in a body"`},
		{"cmd/macbatch/field_files_test.go", `name: "too deep"`},
		{"cmd/macbatch/field_files_test.go", `name: "Latin-1"`},
	}},
	{"J6", "ids never become paths", [][2]string{
		{"cmd/macbatch/field_files_test.go", `name: "ids like paths"`},
		{"cmd/macbatch/field_files_test.go", `name: "long ids"`},
		{"cmd/macbatch/testdata/list/run.txtar", `"custom_id":"../../etc/passwd"`},
	}},
	{"J7", "where every item fails both files are there, and the exit code is 1", [][2]string{
		{"cmd/macbatch/testdata/list/run.txtar", "# Every item fails"},
		{"lease/gather/lines/lines_test.go", "func TestMatrix"},
	}},
	{"J8", "results replace no input; what was accepted outlives a kill", [][2]string{
		{"cmd/macbatch/testdata/list/run.txtar", "would be replaced by the results"},
		{"cmd/macbatch/testdata/list/kill.txtar", "kill -KILL control"},
		{"cmd/macbatch/testdata/list/runner.txtar", "runners"},
		{"lease/gather/lines/lines_test.go", "func TestKilledBetweenNames"},
	}},
}

// TestListCases: each case has its tests.
func TestListCases(t *testing.T) {
	rows := map[string]bool{}
	for _, c := range listCases {
		rows[c.row] = true
		for _, at := range c.tests {
			b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(at[0])))
			if err != nil {
				t.Errorf("%s (%s): %v", c.row, c.what, err)
			} else if !strings.Contains(string(b), at[1]) {
				t.Errorf("%s (%s): %s has no %s", c.row, c.what, at[0], at[1])
			}
		}
	}
	for _, row := range strings.Fields("L1 L2 L3 L4 J1 J2 J3 J4 J5 J6 J7 J8") {
		if !rows[row] {
			t.Errorf("nothing shows case %s", row)
		}
	}
}
