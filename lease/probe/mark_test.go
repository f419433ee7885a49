package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// killed runs a probe that is killed.
func killed(store string) {
	_, err := Run(context.Background(), Options{Store: store, Scenario: Power, Workers: 1, Items: 1_000_000, Seed: 7})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestKilledProbe: the next probe of a file removes what one left that was killed.
func TestKilledProbe(t *testing.T) {
	o := options(t, Queue)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), killedEnv+"="+o.Store, partEnv+"=")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err := os.Lstat(o.Store + ".image"); err == nil {
			break
		}
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatal("no image")
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Fatal("it ended by itself")
	}
	pass(t, o)
	left, err := filepath.Glob(o.Store + "*")
	if err != nil || len(left) != 1 {
		t.Errorf("left are %q, %v, want the store alone", left, err)
	}
}

func TestMark(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store.db")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := takeMark(store)
	if err != nil {
		t.Fatal(err)
	}
	write(store, "a live one's")
	synctest.Test(t, func(t *testing.T) {
		if _, err := takeMark(store); !errors.Is(err, ErrHeld) {
			t.Errorf("takeMark beside a live probe = %v, want ErrHeld", err)
		}
	})
	if err := m.file.Close(); err != nil { // it was killed
		t.Fatal(err)
	}
	if m, err = takeMark(store); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(store); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead one's store = %v, want it gone", err)
	}
	if err := m.drop(); err != nil {
		t.Fatal(err)
	}
	write(store+".probe", "notes of mine")
	write(store, "mine")
	if _, err := takeMark(store); !errors.Is(err, ErrExists) {
		t.Errorf("takeMark beside a file of somebody else = %v, want ErrExists", err)
	}
	write(store+".probe", markText[:4]) // killed while it wrote its mark: nothing else was made
	if m, err = takeMark(store); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(store); string(b) != "mine" {
		t.Errorf("what stands beside half a mark = %q, %v, want it left alone", b, err)
	}
	if err := m.drop(); err != nil {
		t.Fatal(err)
	}
}
