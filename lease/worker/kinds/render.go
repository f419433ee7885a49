package kinds

import (
	"context"
	"fmt"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/transcode"
)

// render makes a rendition of one film. It begins only where there is room for it.
func (t *Tools) render(ctx context.Context, task worker.Task) (any, []string, []lease.Digest, error) {
	var p pipeline.RenderPayload
	if err := payload(task, &p); err != nil {
		return nil, nil, nil, err
	}
	dir, err := t.root(p.Root)
	if err != nil {
		return nil, nil, nil, err
	}
	if need := pipeline.PresetNeed(p.Preset); need != "" && len(t.Encoders) == 0 {
		return nil, nil, nil, &worker.Released{Reason: "ffmpeg has no encoder for proxies on this worker", Withdraw: lease.Need{Model: need}}
	}
	if err := task.Room(uint64(transcode.Estimate(p.Preset, max(0, min(p.DurationMS, maxFilmMS))))); err != nil {
		return nil, nil, nil, err
	}
	res, err := transcode.Render(ctx, transcode.RenderRequest{
		Preset: p.Preset, FFmpeg: t.FFmpeg, FFprobe: t.FFprobe, Version: t.FFmpegVersion, Encoders: t.Encoders, Root: dir, Path: p.Path,
		Want: p.Identity, AudioLang: p.AudioLang, Dir: task.Dir, Progress: func(ms int64) { task.Progress(uint64(ms)) },
	})
	if err != nil {
		return nil, nil, nil, t.filmError(p.Root, err)
	}
	if res.NoPicture {
		return res, nil, nil, nil
	}
	if res.Bytes > pipeline.MaxRendition {
		return nil, nil, nil, &worker.Failure{Class: lease.Permanent, Reason: fmt.Sprintf("a %s of %d bytes is larger than can be taken", p.Preset, res.Bytes)}
	}
	d, err := lease.ParseDigest(res.Digest)
	return res, []string{res.File}, []lease.Digest{d}, err
}

// maxFilmMS bounds what a payload is believed of a film's length: 1,000 hours.
const maxFilmMS = 1000 * 3600 * 1000
