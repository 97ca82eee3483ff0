package result

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"

	"github.com/isolate-run/isolate/internal/plaintext"
)

// Measures of the plot, in pixels.
const (
	plotWidth   = 860
	labelWidth  = 230
	valueWidth  = 110
	rowHeight   = 20
	panelTop    = 44 // title and scale above the rows
	panelBottom = 26
	maxLabel    = 60 // bytes
)

// panel is one dot plot: a line of the plot for each row, from its median to
// its 99th percentile, on a logarithmic scale. Bars would have no foot there.
type panel struct {
	title, unit string
	rows        []dot
}

// dot is one row. A row whose to is 0 has one value only.
type dot struct {
	label    string
	from, to float64
}

// SVG is the report as a plot: panels of dots, one below the other. It is
// empty of figures if nothing was measured, and well-formed all the same.
func (r Report) SVG() string {
	panels := r.panels()
	height := panelBottom
	for _, p := range panels {
		height += p.height()
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, height, plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, height)
	top := 0
	for _, p := range panels {
		p.draw(&b, top)
		top += p.height()
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (r Report) panels() []panel {
	var list []panel
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	for _, l := range r.Latencies {
		p := panel{title: l.Workload + ": " + l.Runs + ", start to end: p50, and a line to p99", unit: "ms"}
		for _, row := range l.Rows {
			p.rows = append(p.rows, dot{row.Contender, ms(row.P50), ms(row.P99)})
		}
		list = append(list, p)
	}
	if t := r.Throughput; t != nil {
		p := panel{title: "workers: " + t.Runs + ", runs a second", unit: "/s"}
		for _, row := range t.Rows {
			for i, rate := range row.PerSecond {
				p.rows = append(p.rows, dot{row.Contender + ", " + count(t.Workers[i], "worker"), rate, 0})
			}
		}
		list = append(list, p)
	}
	if g := r.Growth; g != nil {
		p := panel{title: "kept: one more sandbox: p50, and a line to p99", unit: "ms"}
		for _, l := range g.Levels {
			p.rows = append(p.rows, dot{fmt.Sprintf("%d kept", l.Kept), ms(l.P50), ms(l.P99)})
		}
		list = append(list, p)
	}
	shown := list[:0]
	for _, p := range list {
		if p = p.measured(); len(p.rows) > 0 {
			shown = append(shown, p)
		}
	}
	return shown
}

// measured is the panel with the rows that a logarithmic scale has a place for.
func (p panel) measured() panel {
	var rows []dot
	for _, d := range p.rows {
		if d.from > 0 && !math.IsInf(d.from, 0) && !math.IsInf(d.to, 0) && !math.IsNaN(d.to) {
			rows = append(rows, d)
		}
	}
	p.rows = rows
	return p
}

func (p panel) height() int { return panelTop + len(p.rows)*rowHeight + panelBottom }

// scale is the powers of ten that the rows lie between.
func (p panel) scale() (low, high int) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, d := range p.rows {
		least, most = min(least, d.from), max(most, d.from, d.to)
	}
	low, high = int(math.Floor(math.Log10(least))), int(math.Ceil(math.Log10(most)))
	return low, max(high, low+1)
}

func (p panel) draw(b *strings.Builder, top int) {
	low, high := p.scale()
	x := func(v float64) float64 {
		return labelWidth + (math.Log10(v)-float64(low))/float64(high-low)*(plotWidth-labelWidth-valueWidth)
	}
	bottom := top + panelTop + len(p.rows)*rowHeight
	fmt.Fprintf(b, `<text x="10" y="%d" font-weight="bold">%s</text>`+"\n", top+18, escaped(p.title, maxCell))
	for power := low; power <= high; power++ {
		v := math.Pow10(power)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/>`+"\n", x(v), top+panelTop-6, x(v), bottom)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#666" font-size="10">%g %s</text>`+"\n", x(v), top+panelTop-10, v, escaped(p.unit, maxLabel))
	}
	for i, d := range p.rows {
		y := top + panelTop + i*rowHeight + rowHeight/2
		fill := "#777"
		if strings.HasPrefix(d.label, "isolate") || strings.HasSuffix(d.label, " kept") {
			fill = "#0a58ca"
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth-12, y+4, escaped(d.label, maxLabel))
		end := d.from
		if d.to > d.from {
			end = d.to
			fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-width="2"/>`+"\n", x(d.from), y, x(d.to), y, fill)
		}
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%d" r="4" fill="%s"/>`+"\n", x(d.from), y, fill)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" font-size="10" fill="#444">%s %s</text>`+"\n", x(end)+8, y+4, short(d.from), escaped(p.unit, maxLabel))
	}
}

// short is a value with three digits, or all those before the point.
func short(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// escaped is text as it may stand in the plot.
func escaped(text string, limit int) string {
	return html.EscapeString(plaintext.Clean(plaintext.Visible(text), limit))
}
