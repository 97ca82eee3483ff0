package bridge

import "time"

// help serves one announced request in the goroutine of the caller, to the
// end. What else there is is left to the loop.
func (s *FileServer) help() {
	if s.b.flooded() || !s.working.TryLock() {
		s.signal()
		return
	}
	if s.stopped() {
		s.working.Unlock()
		return
	}
	s.mu.Lock()
	var h hint
	one := len(s.queue) > 0
	if one {
		h = s.queue[0]
		s.queue = append(s.queue[:0], s.queue[1:]...)
	}
	more := len(s.queue) > 0 || s.rescan
	s.mu.Unlock()
	var c *call
	if one {
		var unsure bool
		c, unsure = s.take(h)
		if unsure {
			s.doubt = true
			more = true
		}
	}
	s.working.Unlock()
	if more {
		s.signal()
	}
	if c != nil {
		s.b.run(c)
	}
}

// loop claims requests until the server is closed.
func (s *FileServer) loop() {
	defer close(s.ended)
	defer s.forget()
	// A nil channel: no clock runs until there is a reason.
	var later <-chan time.Time
	for {
		select {
		case <-s.stop:
			return
		case <-s.wake:
		case <-later:
			later = nil
			s.missed()
		}
		if wait := s.work(); wait > 0 && later == nil {
			later = time.After(wait)
		}
	}
}

// work takes what was announced, then reads the directories if that is due.
// The result is when they should be read again, or 0.
func (s *FileServer) work() (wait time.Duration) {
	s.working.Lock()
	defer s.working.Unlock()
	for {
		s.mu.Lock()
		queue, rescan := s.queue, s.rescan
		s.queue, s.rescan = s.spare[:0], false
		s.mu.Unlock()
		s.spare = queue
		if len(queue) == 0 && !rescan {
			if s.doubt && wait == 0 {
				wait = again
			}
			s.doubt = false
			return wait
		}
		begin := time.Now()
		for _, h := range queue {
			if s.stopped() {
				return 0
			}
			s.one(h)
		}
		if rescan {
			wait = max(wait, s.look())
		}
		if s.b.flooded() {
			s.pause(min(3*time.Since(begin), floodPause))
		}
	}
}

// pause waits unless the server is closed.
func (s *FileServer) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.stop:
	}
}

// one claims a request and lets its call run beside.
func (s *FileServer) one(h hint) {
	c, unsure := s.take(h)
	s.doubt = s.doubt || unsure
	if c != nil {
		s.b.begin(c)
	}
}

// look reads the directories, but spends no more than half of the time on it,
// whatever a program does to call for it.
func (s *FileServer) look() (wait time.Duration) {
	if rest := time.Until(s.looked); rest > 0 {
		return rest
	}
	begin := time.Now()
	s.scan()
	now := time.Now()
	s.looked = now.Add(max(now.Sub(begin), lookPause))
	return 0
}

func (s *FileServer) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}
