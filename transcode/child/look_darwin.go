package child

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of <sys/proc.h>

// look tells what is recorded of a process that runs. One that ended and waits to
// be reaped is an fs.ErrNotExist.
func look(pid int) (record, error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return record{}, fmt.Errorf("process %d: %w", pid, err)
	}
	if p.Proc.P_stat == zombie {
		return record{}, fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	start := p.Proc.P_starttime
	return record{pid, fmt.Sprintf("%d.%06d", start.Sec, start.Usec), unix.ByteSliceToString(p.Proc.P_comm[:])}, nil
}

// markedProcesses lists the processes that carry an entry in their environment.
func markedProcesses(entry string) (pids []int, err error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Getuid())
	if err != nil {
		return nil, err
	}
	for i := range list {
		pid := int(list[i].Proc.P_pid)
		if list[i].Proc.P_stat != zombie && hasMark(pid, entry) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// hasMark reads a process's environment, which the system shows of most processes
// of the same user: for the others there are the records.
func hasMark(pid int, entry string) bool {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	return err == nil && bytes.Contains(b, []byte("\x00"+entry+"\x00"))
}
