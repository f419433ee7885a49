package pipeline

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
)

func TestPresetPlan(t *testing.T) {
	for in, ok := range map[string]bool{
		`{"root":"films","preset":"proxy"}`:                       true,
		`{"root":"films","preset":"sheet","audio_lang":["rus"]}`:  true,
		`{"root":"films"}`:                                        false,
		`{"root":"films","preset":"speech"}`:                      false,
		`{"root":"films","preset":"proxy","chunk_ms":60000}`:      false,
		`{"root":"films","preset":"proxy","transcriber":"whole"}`: false,
		`{"root":"films","preset":"-vf"}`:                         false,
	} {
		if _, err := (Planner{}).Start(Transcode, []byte(in)); (err == nil) != ok {
			t.Errorf("Start(%s) = %v", in, err)
		}
	}
	if _, err := (Planner{}).Start(Library, []byte(`{"root":"films","preset":"proxy"}`)); err == nil {
		t.Error("a library job with a preset: accepted")
	}
	src := inventory.Source{Path: "a.mp4", Media: inventory.Media{DurationMS: 5000}}
	res := encode(inventory.Result{Sources: []inventory.Source{src}, Skipped: []inventory.Skipped{}})
	for preset, model := range map[transcode.Preset]string{transcode.Proxy: "preset:proxy", transcode.Sheet: ""} {
		job := &lease.Job{Kind: Transcode, Params: encode(LibraryParams{Root: "films", Preset: preset})}
		means, err := Planner{}.Accept(job, &lease.Shard{Spec: lease.Spec{Need: lease.Need{Kind: Scan}, Payload: encode(ScanPayload{Root: "films"})}}, res, nil)
		if err != nil || len(means.Plan) != 1 {
			t.Fatalf("plan of %s = %+v, %v", preset, means.Plan, err)
		}
		var in RenderPayload
		sp := means.Plan[0]
		if err := json.Unmarshal(sp.Payload, &in); err != nil || in.Path != "a.mp4" || in.Preset != preset || in.DurationMS != 5000 ||
			sp.Need != (lease.Need{Kind: Render, Root: "films", Model: model}) || sp.Reuse.IsZero() || sp.Settles != 1 {
			t.Fatalf("shard of %s = %+v, %v", preset, sp, err)
		}
	}
}

func TestRendition(t *testing.T) {
	d := lease.DigestOf([]byte("film"))
	proxy := func() transcode.Rendition {
		return transcode.Rendition{
			Preset: transcode.Proxy, Digest: d.String(), Bytes: 4, Width: 640, Height: 360, DurationMS: 60_100, Encoder: "libx264", Codec: "h264", FFmpeg: "5",
		}
	}
	sheet := func() transcode.Rendition {
		r := transcode.Rendition{Preset: transcode.Sheet, Digest: d.String(), Bytes: 4, Width: 1624, Height: 740, DurationMS: 60_000, FFmpeg: "5"}
		for i := range 20 {
			r.StillsMS = append(r.StillsMS, int64(i)*3000+1500)
		}
		r.StillsMS[7] = -1
		return r
	}
	accept := func(p transcode.Preset, res transcode.Rendition, blobs []lease.Digest) (lease.Acceptance, error) {
		return Planner{}.Accept(&lease.Job{Kind: Transcode, Params: encode(LibraryParams{Root: "films", Preset: p})},
			&lease.Shard{Spec: lease.Spec{Need: lease.Need{Kind: Render}, Payload: encode(RenderPayload{Root: "films", Path: "a.mp4", Preset: p, DurationMS: 60_000})}},
			encode(res), blobs)
	}
	for p, res := range map[transcode.Preset]transcode.Rendition{transcode.Proxy: proxy(), transcode.Sheet: sheet()} {
		means, err := accept(p, res, []lease.Digest{d})
		if err != nil || !slices.Equal(means.Keeps, []lease.Digest{d}) || len(means.Plan) > 0 || means.Maker.Engine != "ffmpeg" {
			t.Errorf("%s: %+v, %v", p, means, err)
		}
		means, err = accept(p, transcode.Rendition{Preset: p, NoPicture: true, FFmpeg: "5"}, nil)
		if err != nil || len(means.Keeps) > 0 {
			t.Errorf("%s of no picture: %+v, %v", p, means, err)
		}
	}
	cut := proxy()
	cut.DurationMS, cut.Warnings = 30_000, []string{"30.000 s in the proxy, 60.000 s declared"}
	if _, err := accept(transcode.Proxy, cut, []lease.Digest{d}); err != nil {
		t.Errorf("short, and told so: %v", err)
	}
	for name, c := range map[string]struct {
		of    func() transcode.Rendition
		spoil func(r *transcode.Rendition)
		want  string
	}{
		"other preset":    {proxy, func(r *transcode.Rendition) { r.Preset = transcode.Sheet }, "preset"},
		"no ffmpeg":       {proxy, func(r *transcode.Rendition) { r.FFmpeg = "" }, "ffmpeg"},
		"half the film":   {proxy, func(r *transcode.Rendition) { r.DurationMS = 30_000 }, "30.000 s, 60.000 s declared"},
		"twice the film":  {proxy, func(r *transcode.Rendition) { r.DurationMS = 120_000 }, "declared"},
		"no length":       {proxy, func(r *transcode.Rendition) { r.DurationMS = 0 }, "0.000 s"},
		"large":           {proxy, func(r *transcode.Rendition) { r.Width, r.Height = 1920, 1080 }, "1920 x 1080"},
		"odd":             {proxy, func(r *transcode.Rendition) { r.Width = 641 }, "641 x 360"},
		"other encoder":   {proxy, func(r *transcode.Rendition) { r.Encoder = "mpeg4" }, "encoder"},
		"other codec":     {proxy, func(r *transcode.Rendition) { r.Codec = "hevc" }, "hevc"},
		"empty":           {proxy, func(r *transcode.Rendition) { r.Bytes = 0 }, "0 bytes"},
		"huge":            {proxy, func(r *transcode.Rendition) { r.Bytes = MaxRendition + 1 }, "over"},
		"no digest":       {proxy, func(r *transcode.Rendition) { r.Digest = "../x" }, "digest"},
		"not delivered":   {proxy, func(r *transcode.Rendition) { r.Digest = lease.DigestOf(nil).String() }, "not delivered"},
		"made of nothing": {proxy, func(r *transcode.Rendition) { r.NoPicture = true }, "without a picture"},
		"with stills":     {proxy, func(r *transcode.Rendition) { r.StillsMS = []int64{1} }, "stills"},
		"small sheet":     {sheet, func(r *transcode.Rendition) { r.Width = 100 }, "100 x 740"},
		"few stills":      {sheet, func(r *transcode.Rendition) { r.StillsMS = r.StillsMS[1:] }, "19 stills"},
		"out of order":    {sheet, func(r *transcode.Rendition) { r.StillsMS[3] = 0 }, "still 3"},
		"behind the end":  {sheet, func(r *transcode.Rendition) { r.StillsMS[19] = 60_001 }, "still 19"},
		"of another film": {sheet, func(r *transcode.Rendition) { r.DurationMS = 90_000 }, "declared"},
		"encoded":         {sheet, func(r *transcode.Rendition) { r.Encoder = "libx264" }, "encoder"},
		"no still at all": {sheet, func(r *transcode.Rendition) {
			for i := range r.StillsMS {
				r.StillsMS[i] = -1
			}
		}, "without stills"},
	} {
		r := c.of()
		p := r.Preset
		c.spoil(&r)
		if _, err := accept(p, r, []lease.Digest{d}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
