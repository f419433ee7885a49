package store

// reserver is an engine that keeps room on its disk for what makes room.
type reserver interface {
	Reserve() error
	Release() error
}

// relieve gives the reserve up.
func (s *Store) relieve() {
	r, ok := s.engine.(reserver)
	if !ok || s.relieved {
		return
	}
	if err := r.Release(); err != nil {
		s.log.Error("give up the reserve", "error", err)
		return
	}
	s.relieved = true
	s.log.Warn("the disk is full: the reserve was given up, to make room with")
}

// reserve takes the reserve again once there is room. A full disk refuses it at once.
func (s *Store) reserve() {
	if r, ok := s.engine.(reserver); ok && s.relieved && r.Reserve() == nil {
		s.relieved = false
		s.log.Info("the reserve is there again")
	}
}
