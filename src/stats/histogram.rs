//! Histograms of samples over common bins.

/// Counts of several samples in bins of equal ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Bin `k` is from `edges[k]` to below `edges[k + 1]`; what lies outside is in the outer bins.
    pub edges: Vec<f64>,
    /// By sample, by bin.
    pub counts: Vec<Vec<usize>>,
}

impl Histogram {
    /// Bins from the smallest element to the largest 99.9th percentile of the samples; `None` if
    /// one has no element or is not positive.
    ///
    /// ```
    /// use reflex::stats::Histogram;
    ///
    /// let histogram = Histogram::of(&[&[1.0, 1.0, 4.0]], 2).unwrap();
    /// assert_eq!(histogram.counts, [[2, 1]]);
    /// assert!(Histogram::of(&[&[0.0]], 2).is_none());
    /// ```
    pub fn of(samples: &[&[f64]], bins: usize) -> Option<Histogram> {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for sample in samples {
            let mut sorted = sample.to_vec();
            sorted.sort_by(f64::total_cmp);
            low = low.min(*sorted.first()?);
            high = high.max(sorted[(sorted.len() * 999 / 1000).min(sorted.len() - 1)]);
        }
        if !(low > 0.0 && high.is_finite()) || bins == 0 {
            return None;
        }
        let step = (high / low).max(1.01).powf(1.0 / bins as f64);
        let edges: Vec<f64> = (0..=bins).map(|k| low * step.powi(k as i32)).collect();
        let bin = |v: &f64| edges[1..bins].partition_point(|edge| edge <= v);
        let counts = samples
            .iter()
            .map(|sample| {
                let mut counts = vec![0; bins];
                sample.iter().for_each(|v| counts[bin(v)] += 1);
                counts
            })
            .collect();
        Some(Histogram { edges, counts })
    }

    /// Returns the largest share of its sample that any bin holds.
    ///
    /// ```
    /// use reflex::stats::Histogram;
    ///
    /// let histogram = Histogram::of(&[&[1.0, 1.0, 1.0, 4.0]], 2).unwrap();
    /// assert_eq!(histogram.peak(), 0.75);
    /// ```
    pub fn peak(&self) -> f64 {
        let shares = self.counts.iter().map(|counts| {
            let total: usize = counts.iter().sum();
            counts.iter().copied().max().unwrap_or(0) as f64 / total.max(1) as f64
        });
        shares.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_in_one_bin() {
        let a: Vec<f64> = (1..=1000).map(f64::from).collect();
        let b = vec![2.0; 10];
        let h = Histogram::of(&[&a, &b], 10).expect("positive samples");
        assert_eq!(h.edges.len(), 11);
        assert_eq!(h.counts[0].iter().sum::<usize>(), 1000);
        assert_eq!(h.counts[1].iter().filter(|c| **c > 0).count(), 1);
        assert_eq!(h.peak(), 1.0);
        assert!(h.counts[0].windows(2).all(|w| w[0] <= w[1]), "equal ratios: {:?}", h.counts[0]);
    }

    #[test]
    fn what_has_no_logarithm_is_refused() {
        assert_eq!(Histogram::of(&[&[]], 4), None);
        assert_eq!(Histogram::of(&[&[0.0, 1.0]], 4), None);
        assert!(Histogram::of(&[&[3.0]], 4).is_some());
    }
}
