package child

import "syscall"

// The group may be gone already; there is nothing to do about that.
func termGroup(group int) { _ = syscall.Kill(-group, syscall.SIGTERM) }
func killGroup(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) }

func lowerPriority(group int) { _ = syscall.Setpriority(syscall.PRIO_PGRP, group, 10) }
