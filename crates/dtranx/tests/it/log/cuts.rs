//! Cuts and damage at every byte of a member's log: entries, states, and entries that replace
//! others. What is left is the state after the steps before the cut, or damage is named.

use dtranx::log::{LogError, Memory, State};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::log::member::{Content, Step, at, blocks, copy, first, open, put, state, surveyed, write, written};
use crate::log::segment_file;

/// Two leaders: the second one replaces the last two entries of the first one, of which none was
/// committed, by others.
fn replaced() -> Vec<Step> {
    let (entry, state) =
        (|index, term| Step::Entry(at(index, term)), |term, vote, committed| Step::State(state(term, vote, committed)));
    vec![
        state(1, Some(7), 0),
        entry(1, 1),
        entry(2, 1),
        state(1, Some(7), 1),
        entry(3, 1),
        state(1, Some(7), 2),
        entry(4, 1),
        state(2, None, 2),
        state(2, Some(9), 2),
        entry(3, 2),
        state(2, Some(9), 3),
        entry(4, 2),
        entry(5, 2),
        state(3, Some(7), 4),
    ]
}

/// The steps whose blocks are as in `whole`; each has a seal behind it.
fn left<'a>(steps: &'a [Step], whole: &[u8], changed: &[u8]) -> &'a [Step] {
    let is_whole = |(at, block): &(usize, Vec<u8>)| changed[*at..*at + block.len()] == block[..];
    let whole = blocks(whole).iter().take_while(|block| is_whole(block)).count();
    &steps[..whole.div_ceil(2)]
}

#[test]
fn cut_at_every_byte_leaves_what_the_steps_before_it_have_written() {
    let (steps, folder) = (replaced(), tempfile::tempdir().unwrap());
    let medium = written(&steps, 10);
    let whole = first(&medium);
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    assert_eq!(blocks(&whole).len(), 2 * steps.len());
    let mut seen = vec![0; steps.len() + 1];
    for cut in 64..=used {
        let mut bytes = whole.clone();
        bytes[cut..].fill(0);
        let steps = left(&steps, &whole, &bytes);
        let expected = Content::after(steps);
        let medium = copy(&medium);
        put(&medium, &segment_file(1), &bytes);
        let (found, in_order, behind) = surveyed(&medium, folder.path());
        assert_eq!((in_order, behind), (expected.committed.clone(), expected.uncommitted.clone()), "cut at {cut}");
        assert_eq!((found.state, found.gap.is_some()), (expected.state, !expected.uncommitted.is_empty()));
        let (opened, content) = open(&medium).unwrap();
        assert_eq!(content, expected, "cut at {cut}");
        assert_eq!(opened.void, found.void, "cut at {cut}");
        drop(opened);
        assert_eq!(open(&medium).unwrap().1, expected, "cut at {cut}, opened again");
        seen[steps.len()] += 1;
    }
    assert!(seen.iter().all(|seen| *seen > 10), "{seen:?}");
}

#[test]
fn damage_at_every_byte_is_named_or_changes_nothing() {
    let (steps, folder) = (replaced(), tempfile::tempdir().unwrap());
    let medium = written(&steps, 10);
    let whole = first(&medium);
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let expected = Content::after(&steps);
    let mut named = 0;
    for damaged in 64..used + 100 {
        let medium = copy(&medium);
        assert!(medium.damage(&segment_file(1), damaged as u64));
        let (found, in_order, _) = surveyed(&medium, folder.path());
        assert!(expected.committed.starts_with(&in_order), "byte {damaged}: {in_order:?}");
        match open(&medium) {
            Ok((_, content)) => {
                assert_eq!((&content, &in_order), (&expected, &expected.committed), "byte {damaged}");
                assert_eq!(found.damages.list().len(), 1, "only entry 5 is not known to be committed");
            }
            Err(LogError::Corrupt { file, .. }) => {
                assert_eq!(file, segment_file(1));
                assert!(found.gap.is_some() && found.behind > 0, "byte {damaged}: {found:?}");
                named += 1;
            }
            Err(error) => panic!("byte {damaged}: {error}"),
        }
    }
    // All but the zeros behind each block. The last seal is not proven.
    let bytes: usize = blocks(&whole).iter().map(|(_, block)| block.len()).sum();
    assert_eq!(named, bytes - 48);
}

/// An entry that is void is no less damage than any other, if it was persisted and is missing.
#[test]
fn every_block_that_is_missing_is_damage_at_its_place() {
    let steps = replaced();
    let medium = written(&steps, 10);
    let whole = first(&medium);
    let blocks = blocks(&whole);
    for (offset, block) in &blocks[..blocks.len() - 1] {
        let mut bytes = whole.clone();
        bytes[*offset..*offset + block.len()].fill(0);
        let medium = copy(&medium);
        put(&medium, &segment_file(1), &bytes);
        let found = open(&medium).map(|(_, content)| content);
        assert!(matches!(found, Err(LogError::Corrupt { offset: at, .. }) if at == *offset as u64), "{found:?}");
        assert_eq!(medium.contents(&segment_file(1)).unwrap(), bytes, "it is changed");
    }
}

/// Steps of a member at random, as a group may make them: entries follow, or replace what is not
/// committed, by later terms; the committed index is one of an entry that is written.
fn next(random: &mut StdRng, before: &Content, terms: &[u64]) -> Step {
    let State { committed, vote, .. } = before.state;
    let term = before.state.term.max(1);
    match random.random_range(0..10) {
        0 => Step::State(state(term + 1, random.random_bool(0.5).then(|| random.random()), committed)),
        1 | 2 => Step::State(state(term, vote, random.random_range(committed..=before.last.index))),
        3 if before.last.index > committed => {
            let index = random.random_range(committed + 1..=before.last.index);
            Step::Entry(at(index, terms[index as usize - 1].max(term)))
        }
        _ => Step::Entry(at(before.last.index + 1, before.last.term.max(term))),
    }
}

/// Power fails at random places, again and again: what is found are the steps up to some place
/// behind what was persisted.
#[test]
fn crash_leaves_a_prefix_of_what_was_written() {
    let (mut cut, mut void) = (0, 0);
    for seed in 0..150 {
        let mut random = StdRng::seed_from_u64(seed);
        let medium = Memory::new();
        let mut steps: Vec<Step> = vec![Step::State(state(1, None, 0))];
        let mut persisted = 0;
        for round in 0..5 {
            let (mut opened, content) = open(&medium).unwrap();
            let kept = (persisted..=steps.len()).rev().find(|kept| Content::after(&steps[..*kept]) == content);
            let kept = kept.unwrap_or_else(|| panic!("seed {seed} round {round}: {content:?} of {steps:?}"));
            if round == 0 {
                write(&mut opened.log, steps[0], 0).unwrap();
            } else {
                cut += usize::from(kept < steps.len());
                steps.truncate(kept);
            }
            void += opened.void;
            persisted = persisted.max(if round == 0 { 0 } else { kept });
            for _ in 0..random.random_range(0..25) {
                let content = Content::after(&steps);
                let step = next(&mut random, &content, &terms(&steps));
                write(&mut opened.log, step, random.random_range(8..700)).unwrap();
                steps.push(step);
                if random.random_bool(0.2) {
                    opened.log.persist().unwrap();
                    persisted = steps.len();
                }
            }
            drop(opened);
            medium.crash(seed * 100 + round);
        }
    }
    assert!(cut > 100 && void > 500, "{cut} cuts, {void} void entries");
}

/// The terms of the entries that are not void, by index.
fn terms(steps: &[Step]) -> Vec<u64> {
    let mut terms = Vec::new();
    for step in steps {
        if let Step::Entry(entry) = step {
            terms.truncate(entry.index as usize - 1);
            terms.push(entry.term);
        }
    }
    terms
}
