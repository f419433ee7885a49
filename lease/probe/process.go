package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// process is a part of a scenario, as its starter sees it.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *json.Decoder
	said  *strings.Builder // on standard error
	ended bool
}

// start starts a process and gives it its order.
func (o *Options) start(ord order) (*process, error) {
	b, err := json.Marshal(ord)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	p := &process{cmd: cmd, said: &strings.Builder{}}
	cmd.Stderr = p.said
	if o.mark != nil { // held for as long as one of the processes lives
		cmd.ExtraFiles = []*os.File{o.mark.file}
	}
	// A group of its own: Ctrl-C is this process's, which then ends the others.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = json.NewDecoder(bufio.NewReader(stdout))
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		p.kill()
		return nil, fmt.Errorf("start a process: %w: %s", err, p.said)
	}
	return p, nil
}

// next waits for what the process tells next; io.EOF when it has ended.
func (p *process) next() (n news, err error) {
	err = p.lines.Decode(&n)
	return n, err
}

// kill ends the process by SIGKILL and waits until it is gone.
func (p *process) kill() {
	if p.ended {
		return
	}
	p.ended = true
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.in.Close()
	_ = p.cmd.Wait() // killed
}

// wait waits for a process that is about to end, having read all it tells.
func (p *process) wait() error {
	if p.ended {
		return nil
	}
	p.ended = true
	err := errors.Join(p.in.Close(), p.cmd.Wait())
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(p.said.String()))
	}
	return nil
}
