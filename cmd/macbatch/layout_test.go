package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// allowed has a line for each package of this module: which others of it the
// package may import; the command may import all.
const allowed = `
cmd/macbatch: *
lease:
lease/api: lease lease/wire
lease/api/openai: lease lease/api lease/gather/lines lease/item lease/pipeline lease/wire
lease/blob: lease
lease/doctor: lease lease/join summarize/model transcode/child transcribe
lease/gather: lease lease/pipeline lease/wire summarize transcode transcode/inventory transcribe transcribe/subtitle
lease/gather/lines: lease lease/gather lease/item lease/pipeline lease/wire
lease/gather/survey: lease lease/pipeline lease/wire transcode transcode/inventory
lease/heap:
lease/item: lease lease/wire
lease/join: lease lease/wire
lease/kv:
lease/kv/boltkv: lease/kv
lease/kv/kvtest: lease/kv
lease/kv/memkv: lease/kv
lease/leasetest: lease lease/kv lease/kv/memkv lease/store
lease/ledger: lease
lease/pipeline: lease lease/item lease/wire summarize transcode transcode/inventory transcribe
lease/probe: lease lease/api lease/kv lease/kv/boltkv lease/store
lease/probe/load:
lease/search: lease lease/gather/survey lease/pipeline lease/wire transcribe
lease/service:
lease/store: lease lease/kv lease/ledger
lease/wire: lease
lease/worker: lease lease/wire spool
lease/worker/guard: transcode/child
lease/worker/kinds: lease lease/item lease/pipeline lease/wire lease/worker summarize summarize/model summarize/reduce transcode transcode/inventory transcribe transcribe/ocr
spool:
summarize:
summarize/model:
summarize/model/ollama: summarize/model
summarize/model/ollamatest:
summarize/model/openai: summarize/model
summarize/reduce: summarize summarize/model
transcode: transcode/child transcode/inventory
transcode/child:
transcode/inventory: transcode/child
transcribe:
transcribe/ocr: transcode/child
transcribe/openai: transcode/child transcribe transcribe/sound
transcribe/pocketsphinx: transcode/child transcribe transcribe/sound
transcribe/sound: transcode/child transcribe
transcribe/subtitle: transcribe
transcribe/whispercli: transcode/child transcribe transcribe/sound
`

// arrows are the lines of a table by their package. A package that is named
// twice, or out of order, is a mistake of whoever merged.
func arrows(t *testing.T, table string) map[string]string {
	t.Helper()
	rows, last := make(map[string]string), ""
	for line := range strings.Lines(strings.TrimSpace(table)) {
		name, imports, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || name <= last {
			t.Errorf("line %q is no \"package: imports\", or not in order after %s", line, last)
		}
		rows[name], last = strings.TrimSpace(imports), name
	}
	return rows
}

// homes are modules that only some packages may import.
var homes = map[string]string{
	"go.etcd.io/bbolt":                   "lease/kv/boltkv",
	"github.com/urfave/cli/v2":           "cmd/macbatch",
	"github.com/schollz/progressbar/v3":  "cmd/macbatch",
	"github.com/fsnotify/fsnotify":       "spool cmd/macbatch",
	"github.com/kljensen/snowball":       "summarize",
	"modernc.org/sqlite":                 "lease/search",
	"github.com/go-json-experiment/json": "lease/wire",
}

// pure packages import nothing that reaches beyond their arguments.
var pure = map[string][]string{
	"lease":          {"os", "net", "net/http", "os/exec", "database/sql"},
	"lease/pipeline": {"os", "net", "net/http", "os/exec"},
	"lease/ledger":   {"os", "net", "net/http", "os/exec", "time"},
}

func TestImportArrows(t *testing.T) {
	const module = "macbatch/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "macbatch/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	rows := arrows(t, allowed)
	gone := maps.Clone(rows)
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		imports, known := rows[name]
		delete(gone, name)
		if !known {
			t.Errorf("package %s has no row: say what it may import", name)
			continue
		}
		for _, imp := range p.Imports {
			if own, ok := strings.CutPrefix(imp, module); ok && imports != "*" && !contains(imports, own) {
				t.Errorf("%s imports %s", name, own)
			}
			for mod, home := range homes {
				if (imp == mod || strings.HasPrefix(imp, mod+"/")) && !contains(home, name) {
					t.Errorf("%s imports %s, whose home is %s", name, mod, home)
				}
			}
			for _, no := range pure[name] {
				if imp == no {
					t.Errorf("%s imports %s", name, imp)
				}
			}
		}
	}
	for name := range gone {
		t.Errorf("%s has a row and is no package", name)
	}
}

// TestReadmeLayout checks that who reads the layout table meets every package,
// by its path or by its last name.
func TestReadmeLayout(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "\n## Layout\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for name := range arrows(t, allowed) {
		if !strings.Contains(table, "`"+name+"`") && !strings.Contains(table, "`"+path.Base(name)+"`") {
			t.Errorf("the layout in README.md does not name %s", name)
		}
	}
}

func contains(list, name string) bool {
	for _, x := range strings.Fields(list) {
		if x == name {
			return true
		}
	}
	return false
}
