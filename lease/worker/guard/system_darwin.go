package guard

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"macbatch/transcode/child"
)

// load reads a struct loadavg: three fixed-point numbers and their scale.
func load() (float64, error) {
	b, err := unix.SysctlRaw("vm.loadavg")
	if err != nil {
		return 0, err
	}
	if len(b) < 24 {
		return 0, fmt.Errorf("a load of %d bytes is not understood", len(b))
	}
	scale := binary.LittleEndian.Uint64(b[16:])
	if scale == 0 {
		return 0, fmt.Errorf("a load of scale 0 is not understood")
	}
	return float64(binary.LittleEndian.Uint32(b)) / float64(scale), nil
}

// memory takes the system's own word on how much of it is available, in percent.
func memory() (free, all uint64, err error) {
	if all, err = unix.SysctlUint64("hw.memsize"); err != nil {
		return 0, 0, err
	}
	level, err := unix.SysctlUint32("kern.memorystatus_level")
	if err != nil {
		return 0, 0, err
	}
	return all / 100 * uint64(min(level, 100)), all, nil
}

func onBattery(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var out bytes.Buffer
	if _, err := child.Run(ctx, child.Command{Path: "/usr/bin/pmset", Args: []string{"-g", "batt"}, Out: &out}); err != nil {
		return false, err
	}
	return parsePmset(out.String())
}
