//! Puts the page together: facts, learning curves, confusion matrix, predicted images.

use std::fmt::Write;

use super::chart::{Chart, Series};
use super::confusion::share;
use super::{Confusion, Epoch, Report, Sample};
use crate::image::data_uri;

const STYLE: &str = include_str!("style.css");

/// The report as a whole HTML document: styles, charts and images are inside, scripts there are none, and its content
/// security policy forbids to fetch anything. Every text of `report` is escaped.
pub fn html(report: &Report) -> String {
    let title = escape(&report.title);
    let sections = [
        facts(report),
        section("Learning curves", &curves(&report.epochs)),
        section("Confusion matrix", &matrix(&report.confusion)),
        section("Predictions", &sheet(&report.samples, &report.confusion)),
    ]
    .concat();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{sections}\
         </main>\n</body>\n</html>\n"
    )
}

/// `text` for use in HTML content and quoted attributes. Control characters, which HTML forbids, become U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            control if control.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}

fn section(heading: &str, content: &str) -> String {
    format!("<section>\n<h2>{heading}</h2>\n{content}</section>\n")
}

fn facts(report: &Report) -> String {
    let accuracy = report.confusion.accuracy().map_or("not measured".to_owned(), |share| percent(share, 1));
    let measured = [
        ("Accuracy", accuracy),
        ("Device", report.device.clone()),
        ("Epochs", report.epochs.len().to_string()),
        ("Training time", duration(report.seconds)),
        ("Speed", format!("{} images/s", grouped(report.images_per_second))),
        ("Parameters", grouped(report.parameters as f64)),
    ];
    let given = report.facts.iter().map(|fact| (fact.name.as_str(), fact.value.clone()));
    let mut list = String::from("<dl class=\"facts\">\n");
    for (name, value) in measured.into_iter().chain(given) {
        let _ = writeln!(list, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(&value));
    }
    list + "</dl>\n"
}

fn curves(epochs: &[Epoch]) -> String {
    if epochs.is_empty() {
        return "<p class=\"none\">No epoch was finished.</p>\n".to_owned();
    }
    let pair = |train: fn(&Epoch) -> f64, validation: fn(&Epoch) -> f64| {
        [("training", "train", train), ("validation", "valid", validation)].map(|(name, class, value)| Series {
            name,
            class,
            values: epochs.iter().map(value).collect(),
        })
    };
    let loss = Chart {
        title: "Loss",
        series: pair(|epoch| epoch.train_loss, |epoch| epoch.validation_loss),
        include: &[0.0],
        bounds: (f64::NEG_INFINITY, f64::INFINITY),
        format: |value, decimals| format!("{value:.decimals$}"),
    };
    let accuracy = Chart {
        title: "Accuracy",
        series: pair(|epoch| epoch.train_accuracy, |epoch| epoch.validation_accuracy),
        include: &[],
        bounds: (0.0, 1.0),
        format: |value, decimals| percent(value, decimals.saturating_sub(2)),
    };
    let mut out = String::from(
        "<p class=\"legend\"><span class=\"train\"><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path d=\"M0 5H28\"/>\
         </svg>training</span> <span class=\"valid\"><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\">\
         <path d=\"M0 5H28\"/></svg>validation</span></p>\n<div class=\"charts\">\n",
    );
    for chart in [loss, accuracy] {
        let _ = writeln!(out, "<figure><figcaption>{}</figcaption>{}</figure>", chart.title, chart.svg());
    }
    out + "</div>\n"
}

fn matrix(confusion: &Confusion) -> String {
    if confusion.total() == 0 {
        return "<p class=\"none\">No prediction was counted.</p>\n".to_owned();
    }
    let mut out = String::from(
        "<p>Each row is a true class, each column what the model took it for. Blue: right. Orange: wrong.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\">\n<table>\n<thead><tr>\
         <td></td>",
    );
    for class in confusion.classes() {
        let _ = write!(out, "<th scope=\"col\">{}</th>", breakable(class));
    }
    out.push_str("<th scope=\"col\" class=\"recall\">Recall</th></tr></thead>\n<tbody>\n");
    for (truth, counts) in confusion.rows().enumerate() {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", breakable(&confusion.class_name(truth)));
        let total = counts.iter().sum();
        for (predicted, count) in counts.iter().enumerate() {
            out.push_str(&cell(confusion, (truth, predicted), *count, total));
        }
        let recall = confusion.recall(truth).map_or("–".to_owned(), |share| percent(share, 1));
        let _ = writeln!(out, "<td class=\"recall\">{recall}</td></tr>");
    }
    out.push_str("</tbody>\n<tfoot><tr><th scope=\"row\">Precision</th>");
    for class in 0..confusion.classes().len() {
        let precision = confusion.precision(class).map_or("–".to_owned(), |share| percent(share, 0));
        let _ = write!(out, "<td>{precision}</td>");
    }
    let accuracy = confusion.accuracy().map_or("–".to_owned(), |share| percent(share, 1));
    let _ = write!(out, "<td class=\"recall\">{accuracy}</td></tr></tfoot>\n</table>\n</div>\n");
    out
}

fn cell(confusion: &Confusion, (truth, predicted): (usize, usize), count: u64, total: u64) -> String {
    let part = share(count, total).unwrap_or(0.0);
    // A square root, so that one mistake in a hundred is still seen.
    let heat = (part.sqrt() * 100.0).round();
    let kind = if truth == predicted { "right" } else { "wrong" };
    let strong = if heat > 72.0 { " strong" } else { "" };
    let zero = if count == 0 { " zero" } else { "" };
    format!(
        "<td class=\"{kind}{strong}{zero}\" style=\"--heat:{heat}%\" title=\"{} taken for {}: {count} of {total} ({})\">\
         {count}</td>",
        escape(&confusion.class_name(truth)),
        escape(&confusion.class_name(predicted)),
        percent(part, 1)
    )
}

fn sheet(samples: &[Sample], confusion: &Confusion) -> String {
    if samples.is_empty() {
        return "<p class=\"none\">No image was kept.</p>\n".to_owned();
    }
    let wrong = samples.iter().filter(|sample| is_wrong(sample)).count();
    let mut out = format!(
        "<p>{} images, {wrong} of them predicted wrong (marked ✗, with the true class below).</p>\n<ul class=\"sheet\">\n",
        samples.len()
    );
    for sample in samples {
        out.push_str(&card(sample, confusion));
    }
    out + "</ul>\n"
}

fn is_wrong(sample: &Sample) -> bool {
    sample.truth.is_some_and(|truth| truth != sample.predicted)
}

fn card(sample: &Sample, confusion: &Confusion) -> String {
    let predicted = escape(&confusion.class_name(sample.predicted));
    let truth = sample.truth.map(|truth| escape(&confusion.class_name(truth)));
    let (class, mark, note) = match &truth {
        Some(truth) if is_wrong(sample) => ("miss", "✗ ", format!("<span class=\"truth\">is {truth}</span>")),
        Some(_) => ("hit", "", String::new()),
        None => ("open", "", String::new()),
    };
    let alt = truth.as_deref().unwrap_or("image of unknown class");
    let picture = match data_uri(&sample.image) {
        Ok(uri) => format!("<img src=\"{uri}\" alt=\"{alt}\" width=\"84\" height=\"84\">"),
        Err(error) => format!("<span class=\"none\">no picture: {}</span>", escape(&format!("{error:#}"))),
    };
    format!(
        "<li class=\"{class}\">{picture}<b>{mark}{predicted}</b>{note}<span>{}</span></li>\n",
        percent(sample.confidence, 0)
    )
}

/// Escaped, and able to break after a slash.
fn breakable(text: &str) -> String {
    escape(text).replace('/', "/<wbr>")
}

fn percent(share: f64, decimals: usize) -> String {
    if share.is_finite() { format!("{:.decimals$} %", share * 100.0) } else { "–".to_owned() }
}

/// Seconds as people say them.
fn duration(seconds: f64) -> String {
    match seconds {
        s if !(s.is_finite() && s >= 0.0) => "–".to_owned(),
        s if s < 99.95 => format!("{s:.1} s"),
        s => {
            let whole = s.round() as u64;
            match whole / 3600 {
                0 => format!("{} min {} s", whole / 60, whole % 60),
                hours => format!("{hours} h {} min", whole % 3600 / 60),
            }
        }
    }
}

/// Rounded to a whole number, with a comma between groups of three digits.
fn grouped(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value <= -0.5 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::image::GrayImage;
    use crate::report::Fact;

    fn report(evil: &str) -> Report {
        let mut confusion = Confusion::new(["T-shirt/top", evil]);
        for (truth, predicted) in [(0, 0), (0, 1), (1, 1), (1, 1)] {
            confusion.record(truth, predicted).unwrap();
        }
        let image = GrayImage::new(2, 2, vec![0, 100, 200, 255]).unwrap();
        let sample = |predicted, truth| Sample { image: image.clone(), predicted, truth, confidence: 0.876 };
        Report {
            title: evil.to_owned(),
            device: evil.to_owned(),
            seconds: 12.34,
            parameters: 421_642,
            images_per_second: 12_345.6,
            facts: vec![Fact { name: evil.to_owned(), value: evil.to_owned() }],
            epochs: vec![Epoch {
                train_loss: 1.0,
                train_accuracy: 0.5,
                validation_loss: 0.9,
                validation_accuracy: 0.6,
            }],
            confusion,
            samples: vec![sample(0, Some(0)), sample(1, Some(0)), sample(1, None), sample(7, Some(9))],
        }
    }

    #[test]
    fn the_page_says_what_the_report_holds() {
        let page = html(&report("Shirt"));
        for text in [
            "75.0 %",
            "12.3 s",
            "12,346 images/s",
            "421,642",
            "T-shirt/<wbr>top",
            "taken for Shirt: 1 of 2 (50.0 %)",
            "88 %",
        ] {
            assert!(page.contains(text), "{text:?} is missing");
        }
        assert_eq!(page.matches("<img ").count(), 4);
        assert_eq!(page.matches("class=\"miss\"").count(), 2);
        assert!(page.contains("✗ class 7") && page.contains("is class 9"));
    }

    #[test]
    fn the_page_needs_nothing_from_outside() {
        let page = html(&report("Shirt"));
        for outside in ["http:", "https:", "<script", "<link", "@import", "url(", "src=\"//"] {
            assert!(!page.contains(outside), "{outside:?} is in the page");
        }
        let sources = page.split("src=\"").skip(1);
        assert!(
            sources.clone().count() == 4 && sources.clone().all(|source| source.starts_with("data:image/png;base64,"))
        );
    }

    #[test]
    fn every_text_is_escaped() {
        let evil = "<script>alert(\"1\" & '2')</script>\0";
        let page = html(&report(evil));
        assert!(!page.contains("<script>") && !page.contains('\0'));
        let escaped = "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;\u{fffd}";
        assert_eq!(escape(evil), escaped);
        assert!(page.matches(escaped).count() >= 5);
    }

    #[test]
    fn an_empty_report_is_still_a_page() {
        let mut empty = report("Shirt");
        empty.epochs.clear();
        empty.samples.clear();
        empty.confusion = Confusion::new(["a", "b"]);
        (empty.seconds, empty.images_per_second) = (f64::NAN, f64::INFINITY);
        let page = html(&empty);
        for text in ["No epoch was finished", "No prediction was counted", "No image was kept", "not measured"] {
            assert!(page.contains(text), "{text:?} is missing");
        }
        assert!(!page.contains("NaN") && !page.contains("inf "));
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0.04, 59.96, 100.0, 3599.6, 7260.0, -1.0].map(duration),
            ["0.0 s", "60.0 s", "1 min 40 s", "1 h 0 min", "2 h 1 min", "–"]
        );
        assert_eq!([0.0, 999.6, 1e6, -1234.0, f64::NAN].map(grouped), ["0", "1,000", "1,000,000", "-1,234", "–"]);
        assert_eq!(percent(0.12345, 1), "12.3 %");
    }

    #[test]
    fn the_report_serialises_without_the_pixels() {
        let json = serde_json::to_value(report("Shirt")).unwrap();
        assert_eq!(json["confusion"]["counts"][0], serde_json::json!([1, 1]));
        assert!(json["samples"][0].get("image").is_none());
    }

    proptest! {
        #[test]
        fn any_text_leaves_the_markup_balanced(text: String) {
            let page = html(&report(&text));
            let plain = html(&report("Shirt"));
            prop_assert_eq!(page.matches('<').count(), plain.matches('<').count() + wbrs(&text));
        }
    }

    /// The line-break opportunities that slashes in a class name add: in its column and its row heading.
    fn wbrs(text: &str) -> usize {
        2 * text.matches('/').count()
    }
}
