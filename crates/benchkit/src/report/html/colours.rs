//! One colour for each target, the same on every page. The colours themselves are in
//! `page/style.css`.

use serde::Serialize;

/// Number of colours in the style sheet.
const COLOURS: u8 = 8;
/// The targets whose colours are fixed, in the order of the style sheet's.
const FIXED: [&str; 8] = ["mongotx", "plain", "native", "mongotx-published", "mvcc", "recipe", "gateway", "dtranx"];

/// A target, with its colour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Coloured {
    /// Name of the target.
    pub(super) name: String,
    /// Number of the colour, from 0.
    pub(super) colour: u8,
}

/// Gives each target a colour; those that have no fixed one get what is left, and share colours
/// only when there are more targets than colours.
pub(super) fn assign(targets: &[&str]) -> Vec<Coloured> {
    let fixed = |name: &str| (0..COLOURS).zip(FIXED).find(|(_, known)| *known == name).map(|(colour, _)| colour);
    let taken: Vec<u8> = targets.iter().filter_map(|name| fixed(name)).collect();
    let mut free = (0..COLOURS).filter(|colour| !taken.contains(colour)).chain((0..COLOURS).cycle());
    let coloured = |name: &&str| Coloured {
        name: (*name).to_owned(),
        colour: fixed(name).or_else(|| free.next()).unwrap_or_default(),
    };
    targets.iter().map(coloured).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colours(targets: &[&str]) -> Vec<u8> {
        assign(targets).iter().map(|target| target.colour).collect()
    }

    #[test]
    fn known_targets_keep_their_colours_and_others_take_what_is_left() {
        assert_eq!(colours(&["native", "mongotx"]), [2, 0]);
        assert_eq!(colours(&["new", "plain", "newer", "mongotx"]), [2, 1, 3, 0]);
    }

    #[test]
    fn more_targets_than_colours_are_coloured_too() {
        let names: Vec<String> = (0..20).map(|n| format!("target{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(colours(&names).iter().all(|colour| *colour < COLOURS));
        assert_eq!(colours(&names)[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
