//! Each story once without a death, and then once for each write and kind of death.

use std::sync::Arc;

use lives::death::Death;
use lives::town::Town;

use super::judge;
use super::stories::{ALL, Story};

/// Runs a story whose first controller run ends at this death, if the story has that many writes.
async fn play(story: &Story, death: Death) -> Arc<Death> {
    let (town, death) = (story.settled().await, Arc::new(death));
    town.server.judged_by(judge::of(story.most_disturbed));
    let life = town.life_until(&death);
    story.changes(&town);
    let ended = tokio::select! {
        () = death.comes() => false,
        () = story.ends(&town) => true,
    };
    life.kill();
    if !ended {
        let life = town.life();
        story.ends(&town).await;
        life.kill();
    }
    judge_the_end(story, &town);
    death
}

fn judge_the_end(story: &Story, town: &Town) {
    assert_eq!(town.server.faults(), [] as [String; 0], "{}", story.name);
    let machines = town.ec2.machines();
    assert_eq!(machines.len(), story.end.2, "{}: machines ever", story.name);
    let owned = town.server.owned();
    let unowned: Vec<String> =
        machines.iter().map(|it| it.instance.provider_id()).filter(|id| !owned.contains(id)).collect();
    assert_eq!(unowned, [] as [String; 0], "{}: bought for nobody", story.name);
}

/// Runs all deaths of a story, one after the other.
fn die_everywhere(story: &Story) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let writes = runtime().block_on(play(story, Death::never())).writes();
    assert!(writes > 5, "{}: {writes} writes are no story", story.name);
    for at in 1..=writes {
        for taken in [false, true] {
            println!("{}: dies at write {at} of {writes}, taken: {taken}", story.name);
            runtime().block_on(play(story, Death::at(at, taken)));
        }
    }
}

#[test]
fn drift_replaces_nodes_wherever_the_controller_dies() {
    die_everywhere(&ALL[0]);
}

#[test]
fn consolidation_merges_nodes_wherever_the_controller_dies() {
    die_everywhere(&ALL[1]);
}

#[test]
fn consolidation_removes_node_wherever_the_controller_dies() {
    die_everywhere(&ALL[2]);
}

#[test]
fn deletion_drains_node_wherever_the_controller_dies() {
    die_everywhere(&ALL[3]);
}
