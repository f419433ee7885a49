package child

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// look tells what is recorded of a process that runs. One that ended and waits to
// be reaped is an fs.ErrNotExist.
func look(pid int) (record, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return record{}, err
	}
	// The name in parentheses may hold anything, parentheses too.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return record{}, fmt.Errorf("process %d: its state is not understood", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return record{}, fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return record{}, err
	}
	program, err := os.Readlink(dir + "/exe")
	if err != nil {
		return record{}, err
	}
	return record{pid, fields[19] + " " + strings.TrimSpace(string(boot)), program}, nil
}

// markedProcesses lists the processes that carry an entry in their environment.
func markedProcesses(entry string) (pids []int, err error) {
	files, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if pid, err := strconv.Atoi(f.Name()); err == nil && hasMark(pid, entry) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// hasMark reads a process's environment; that of others, and of one that is gone,
// can't be read or is empty.
func hasMark(pid int, entry string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, b...), []byte("\x00"+entry+"\x00"))
}
