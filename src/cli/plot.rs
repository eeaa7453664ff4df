//! Histograms for the terminal and as SVG.

use std::fmt::Write;

use reflex::stats::Histogram;

/// Columns of a bar in the terminal.
const BAR: usize = 28;
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// One line a bin: its lower edge, and a bar for each sample.
pub fn text(histogram: &Histogram, names: &[String]) -> String {
    let mut out = format!("{:>12}", "from us");
    for name in names {
        write!(out, "  {name:BAR$}").expect("a string takes all");
    }
    out = out.trim_end().to_string() + "\n";
    let peak = histogram.peak();
    for bin in 0..histogram.edges.len() - 1 {
        let mut line = format!("{:>12.2}", histogram.edges[bin]);
        for counts in &histogram.counts {
            let total: usize = counts.iter().sum();
            let share = counts[bin] as f64 / total.max(1) as f64 / peak;
            write!(line, "  {:BAR$}", bar(share)).expect("a string takes all");
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// A bar of a share of the full length; anything at all shows.
fn bar(share: f64) -> String {
    let eighths = (share * BAR as f64 * 8.0).ceil() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8 - 1]);
    }
    bar
}

const COLOURS: [&str; 2] = ["#1f77b4", "#d95f02"];
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 50.0;
const TICKS: usize = 5;

/// The samples as outlines over a logarithmic axis of microseconds.
pub fn svg(histogram: &Histogram, names: &[String], title: &str) -> String {
    let bins = histogram.edges.len() - 1;
    let x = |k: f64| MARGIN + k / bins as f64 * (WIDTH - 2.0 * MARGIN);
    let floor = HEIGHT - MARGIN;
    let y = |share: f64| floor - share / histogram.peak() * (HEIGHT - 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\">{}</text>\n\
         <path d=\"M{MARGIN} {floor}H{}\" stroke=\"black\"/>\n",
        escaped(title),
        WIDTH - MARGIN
    );
    for tick in 0..=TICKS {
        let bin = bins * tick / TICKS;
        let (at, value) = (x(bin as f64), histogram.edges[bin]);
        out += &format!(
            "<path d=\"M{at:.1} {floor}v5\" stroke=\"black\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value:.2}</text>\n",
            floor + 18.0
        );
    }
    let label = HEIGHT - 14.0;
    out += &format!("<text x=\"{}\" y=\"{label}\" text-anchor=\"middle\">us</text>\n", WIDTH / 2.0);
    for (k, (counts, name)) in histogram.counts.iter().zip(names).enumerate() {
        let colour = COLOURS[k % COLOURS.len()];
        let total: usize = counts.iter().sum();
        let mut path = format!("M{:.1} {floor:.1}", x(0.0));
        for (bin, count) in counts.iter().enumerate() {
            let top = y(*count as f64 / total.max(1) as f64);
            path += &format!("V{top:.1}H{:.1}", x(bin as f64 + 1.0));
        }
        path += &format!("V{floor:.1}Z");
        let legend = 20.0 + 16.0 * (k as f64 + 1.0);
        out += &format!(
            "<path d=\"{path}\" fill=\"{colour}\" fill-opacity=\"0.35\" stroke=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"{legend}\" fill=\"{colour}\" text-anchor=\"end\">{}</text>\n",
            WIDTH - MARGIN,
            escaped(name)
        );
    }
    out + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram() -> Histogram {
        Histogram::of(&[&[1.0, 1.0, 1.0, 2.0], &[2.0, 2.0, 2.0, 2.0]], 2).expect("positive")
    }

    #[test]
    fn bars_are_shares_of_the_peak() {
        let text = text(&histogram(), &["a".to_string(), "b".to_string()]);
        let bars: Vec<usize> = text.lines().map(|l| l.matches('█').count()).collect();
        assert_eq!(bars, [0, BAR * 3 / 4, BAR / 4 + BAR]);
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(1e-9), "▏");
    }

    #[test]
    fn the_picture_is_xml() {
        let picture = svg(&histogram(), &["a<b".to_string(), "b".to_string()], "a & b");
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert!(picture.contains("a &amp; b") && picture.contains("a&lt;b"));
        assert_eq!(picture.matches("fill-opacity").count(), 2);
    }
}
