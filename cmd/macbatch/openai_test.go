package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"macbatch/summarize/model/ollamatest"
)

// TestOpenAIScripts runs batches with OpenAI's own client, on a real Ollama.
// scripts/setup puts the client into the cache.
func TestOpenAIScripts(t *testing.T) {
	cache, err := os.UserCacheDir()
	modules := filepath.Join(cache, "macbatch/node/node_modules")
	if err == nil {
		_, err = os.Stat(filepath.Join(modules, "openai"))
	}
	if err != nil {
		absent(t, err)
	}
	demand(t, "node")
	server := ollamatest.Start(t, nil)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/openai",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("NODE_PATH", modules)
			e.Setenv("MACBATCH_RUNTIME", "local=ollama:"+server.URL)
			return errors.Join(setPort(e), os.MkdirAll(e.WorkDir+"/home", 0o700))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": wantCode, "reach": reach, "job": job},
	})
}
