//! The steps that a scenario reaches, and how often.

use std::collections::BTreeSet;

use mongotx::Step;

use crate::common::{
    hooks::Hook,
    scenario::{End, Scenario},
    verify::{Case, Report},
    world::World,
};

/// More times than this one step is not broken in one scenario.
const TIMES: usize = 6;

/// Lives the scenario undisturbed: each step with the number of times it was reached.
pub(crate) async fn steps_of(scenario: Scenario, uri: &str) -> Vec<(Step, usize)> {
    let world = World::new(uri, "plan");
    let (report, hook) = (Report::default(), Hook::counting());
    scenario.set_up(&world).await;
    // A lease so long that no sign of life falls into the scenario.
    let client = world.client_with(60_000, hook.clone()).await;
    let end = scenario.live(&world, &client, &|progress| report.note(progress)).await;
    let expected = if scenario == Scenario::Rollback { End::RolledBack } else { End::Committed };
    assert_eq!(end, expected, "{scenario:?}");
    scenario.leave(&client).await;
    let steps = Step::ALL.into_iter().map(|step| (step, hook.count(step).min(TIMES)));
    let steps = steps.filter(|(_, times)| *times > 0).collect();
    client.shutdown().await.unwrap();
    Case { world: &world, scenario, report: &report, name: format!("{scenario:?}, undisturbed") }.check_all().await;
    world.drop().await;
    steps
}

#[tokio::test]
async fn every_step_is_reached_by_a_scenario() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let mut reached = BTreeSet::new();
    for scenario in Scenario::ALL {
        let steps = steps_of(scenario, &server.uri()).await;
        reached.extend(steps.into_iter().map(|(step, _)| format!("{step:?}")));
    }
    let all: BTreeSet<String> = Step::ALL.iter().map(|step| format!("{step:?}")).collect();
    assert_eq!(reached, all);
}
