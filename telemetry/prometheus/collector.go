// Package prometheus promises the counters of a kernel to a Prometheus registry
// (K-23). It writes no text: an embedder's own registry does, and telemetry.Write
// for who has none.
package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/telemetry"
)

// collector is a prometheus.Collector over a kernel's counters.
type collector struct{ stats func() kernel.Stats }

// NewCollector gives the nine counters to a Prometheus registry. stats is
// called at every collection, such as a kernel's Stats.
func NewCollector(stats func() kernel.Stats) prometheus.Collector { return collector{stats} }

// Describe implements prometheus.Collector: the metrics are those of Collect.
func (c collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range telemetry.Counters(c.stats()) {
		var labels, values []string
		if m.Label != "" {
			labels, values = []string{m.Label}, []string{m.LabelValue}
		}
		desc := prometheus.NewDesc(m.Name, m.Help, labels, nil)
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(m.Value), values...)
	}
}
