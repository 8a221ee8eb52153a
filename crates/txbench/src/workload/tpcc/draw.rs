//! The values that rows and inputs are made of (clauses 2.1.5 and 4.3.2), all drawn from a seed.
//!
//! Numbers that are not uniform are in [`super::nurand`].

use std::ops::RangeInclusive;

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const DIGITS: &[u8] = b"0123456789";
/// Text in some of the items' and stocks' data (clause 4.3.3.1).
pub const ORIGINAL: &str = "ORIGINAL";
/// Syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// A source of random values.
#[derive(Debug)]
pub struct Draw(StdRng);

impl Draw {
    /// The values of one `stream` of a seed: different streams are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = StdRng::seed_from_u64(seed);
        Self(StdRng::seed_from_u64(mixed.random::<u64>() ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// A number from `range`, each as likely as the others (clause 2.1.5).
    pub fn uniform(&mut self, range: RangeInclusive<u32>) -> u32 {
        self.0.random_range(range)
    }

    /// An amount of money from `range`, each as likely as the others.
    pub fn cents(&mut self, range: RangeInclusive<i64>) -> i64 {
        self.0.random_range(range)
    }

    /// True in so many percent of the calls.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.uniform(1..=100) <= percent
    }

    /// A uniform number, at least 0 and less than 1.
    pub fn fraction(&mut self) -> f64 {
        self.0.random()
    }

    /// Any of 2^62 numbers, from 0.
    pub fn wide(&mut self) -> i64 {
        self.0.random_range(0..1_i64 << 62)
    }

    /// Letters and digits, of a length from `length` (clause 4.3.2.2).
    pub fn a_string(&mut self, length: RangeInclusive<u32>) -> String {
        self.string(LETTERS, length)
    }

    /// Digits, of a length from `length` (clause 4.3.2.2).
    pub fn n_string(&mut self, length: RangeInclusive<u32>) -> String {
        self.string(DIGITS, length)
    }

    /// A ZIP code: four random digits and 11111 (clause 4.3.2.7).
    pub fn zip(&mut self) -> String {
        self.n_string(4..=4) + "11111"
    }

    /// An item's or a stock's data: 26 to 50 characters, with ORIGINAL in them in one of ten
    /// (clause 4.3.3.1).
    pub fn data(&mut self) -> String {
        let mut data = self.a_string(26..=50);
        if self.percent(10) {
            let at = self.0.random_range(0..=data.len() - ORIGINAL.len());
            data.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
        }
        data
    }

    /// The numbers from 1 to `n` in random order (clause 4.3.3.1: the customers of the first
    /// orders).
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=n).collect();
        self.shuffle(&mut numbers);
        numbers
    }

    /// Puts elements into random order.
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        elements.shuffle(&mut self.0);
    }

    fn string(&mut self, alphabet: &[u8], length: RangeInclusive<u32>) -> String {
        let length = self.uniform(length);
        (0..length).map(|_| char::from(alphabet[self.0.random_range(0..alphabet.len())])).collect()
    }
}

/// The last name of a number from 0 to 999: a syllable for each of its three digits (clause
/// 4.3.2.3).
pub fn last_name(number: u32) -> String {
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn share(mut happens: impl FnMut() -> bool) -> f64 {
        (0..20_000).filter(|_| happens()).count() as f64 / 20_000.0
    }

    #[test]
    fn last_names_are_those_of_the_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
        assert_eq!((0..1_000).map(last_name).collect::<BTreeSet<_>>().len(), 1_000);
    }

    #[test]
    fn uniform_numbers_take_every_value_equally_often() {
        let mut draw = Draw::new(1, 0);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[draw.uniform(1..=10) as usize - 1] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..=10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn strings_have_the_characters_and_lengths_asked_for() {
        let mut draw = Draw::new(2, 0);
        let (mut lengths, mut characters) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..5_000 {
            let (text, number) = (draw.a_string(8..=16), draw.n_string(16..=16));
            lengths.insert(text.len());
            assert!(number.len() == 16 && number.bytes().all(|c| c.is_ascii_digit()), "{number}");
            characters.extend(text.bytes());
        }
        assert_eq!(lengths, (8..=16).collect());
        // 26 lower-case letters, 26 upper-case ones, ten digits.
        assert_eq!(characters, LETTERS.iter().copied().collect());
        assert_eq!(characters.len(), 62);
    }

    #[test]
    fn a_zip_code_is_four_digits_and_five_ones() {
        let mut draw = Draw::new(3, 0);
        let zips: BTreeSet<String> = (0..1_000).map(|_| draw.zip()).collect();
        assert!(zips.len() > 900);
        assert!(zips.iter().all(|zip| zip.len() == 9 && zip.ends_with("11111")));
        assert!(zips.iter().all(|zip| zip.bytes().all(|c| c.is_ascii_digit())));
    }

    #[test]
    fn one_in_ten_data_is_original_anywhere_in_it() {
        let mut draw = Draw::new(4, 0);
        let (mut places, mut lengths) = (BTreeSet::new(), BTreeSet::new());
        let share = share(|| {
            let data = draw.data();
            lengths.insert(data.len());
            places.extend(data.find(ORIGINAL));
            data.contains(ORIGINAL)
        });
        assert!((share - 0.1).abs() < 0.01, "{share}");
        assert_eq!(lengths, (26..=50).collect());
        assert_eq!(places, (0..=42).collect());
    }

    #[test]
    fn a_permutation_has_every_number_once_and_in_another_order() {
        let numbers = Draw::new(5, 0).permutation(3_000);
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 3_000);
        assert_eq!((numbers.iter().min(), numbers.iter().max()), (Some(&1), Some(&3_000)));
        let in_place = numbers.iter().enumerate().filter(|(i, n)| *i as u32 + 1 == **n).count();
        assert!(in_place < 15, "{in_place}");
    }

    #[test]
    fn percents_happen_as_often_as_they_say() {
        let mut draw = Draw::new(6, 0);
        for percent in [0, 1, 15, 60, 100] {
            let share = share(|| draw.percent(percent));
            assert!((share * 100.0 - f64::from(percent)).abs() < 1.5, "{percent}: {share}");
        }
    }

    #[test]
    fn a_seed_and_a_stream_fix_the_values() {
        let first = |seed, stream| Draw::new(seed, stream).a_string(50..=50);
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(1, 2));
        assert_ne!(first(1, 1), first(2, 1));
    }
}
