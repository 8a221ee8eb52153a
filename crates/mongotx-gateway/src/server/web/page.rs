//! The page itself. All that it shows comes later, as JSON, and is put into it as text.

use maud::{DOCTYPE, Markup, html};

/// The page's style sheet, for light and dark.
pub(super) const STYLE: &str = include_str!("assets/page.css");
/// Scripts of the page: charts, tables, and requests.
const SCRIPTS: [&str; 3] =
    [include_str!("assets/charts.js"), include_str!("assets/tables.js"), include_str!("assets/page.js")];

/// The page's scripts, in one file.
pub(super) fn script() -> String {
    let inner = SCRIPTS.join("\n");
    format!("\"use strict\";\n(() => {{\n{inner}\n}})();\n")
}

/// The page of the gateway that listens at this address.
pub(super) fn page(address: &str, token: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="token" content=(token);
                title { "MongoTx gateway " (address) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="page.css";
            }
            body {
                (head(address))
                noscript { p class="problem" { "This page needs its script: it shows what goes on now." } }
                p id="problem" class="problem" role="alert" hidden {}
                p id="said" class="said" role="status" hidden {}
                main {
                    (charts())
                    (section("waits", "Who waits for whom", "No transaction waits."))
                    (section("operations", "In flight", "Nothing runs, and no transaction is open."))
                    (section("clients", "Clients of the store", "No client has a record."))
                    (section("ended", "Rolled back lately", "No transaction was rolled back."))
                }
                script src="page.js" {}
            }
        }
    };
    page.into_string()
}

fn head(address: &str) -> Markup {
    html! {
        header {
            h1 { "MongoTx gateway " span class="address" { (address) } }
            p id="about" class="faint" {}
            dl id="tiles" {
                @for (id, label) in [
                    ("connections", "connections"), ("running", "commands running"), ("open", "open transactions"),
                    ("waiting", "waiting for others"), ("dead", "dead clients"),
                ] {
                    div { dt { (label) } dd id={"tile-" (id)} { "–" } }
                }
            }
        }
    }
}

fn charts() -> Markup {
    html! {
        section class="charts" aria-label="Rates and latencies of the last five minutes" {
            @for (id, title) in [
                ("rates", "Commands a second"), ("latencies", "Latency (dashed: 99th percentile)"),
                ("transactions", "Transactions a second"),
            ] {
                figure {
                    figcaption { (title) }
                    div class="chart" id={"chart-" (id)} {}
                    p class="legend" id={"legend-" (id)} {}
                }
            }
        }
    }
}

fn section(id: &str, title: &str, empty: &str) -> Markup {
    html! {
        section id=(id) {
            h2 { (title) }
            p class="empty faint" { (empty) }
            div class="rows" {}
            p class="more faint" hidden {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_the_page_is_escaped() {
        let page = page("<script>alert(1)</script>", "\"><script>");
        assert!(!page.contains("<script>alert") && !page.contains("\"><script>"), "{page}");
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let all = format!("{}{}{STYLE}", page("a", "b"), script());
        for elsewhere in ["http:", "https:", "@import", "url(", "innerHTML", "insertAdjacentHTML", "eval("] {
            let is_name = all.replace("http://www.w3.org/2000/svg", "").contains(elsewhere);
            assert!(!is_name, "{elsewhere}");
        }
    }
}
