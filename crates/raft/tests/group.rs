//! A group of members in memory, whose messages are carried by hand.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use redstart_log::{Frame, Index, Log};
use redstart_raft::{Change, Refusal, Role};

use support::{Group, frames, member};

#[test]
fn one_member_elects_itself_and_commits_what_it_flushes() {
    let mut group = Group::new(1);
    let leader = group.elect();
    let mut log = group.log(leader);
    let before = log.appended();
    let appended = log.append(5, b"hello").unwrap();
    assert_eq!(appended.index.0, before.0 + 1);
    assert_eq!(log.committed(), before);
    assert_eq!(log.flusher().flush().unwrap(), appended.index);
    assert_eq!(log.committed(), appended.index);
}

#[test]
fn a_frame_is_committed_when_a_majority_has_flushed_it() {
    let mut group = Group::new(3);
    let leader = group.elect();
    let mut log = group.log(leader);
    let index = log.append(5, b"hello").unwrap().index;
    group.carry_without_flushes();
    assert!(log.committed() < index, "nobody has flushed");
    group.flush(leader);
    group.carry_without_flushes();
    assert!(log.committed() < index, "only the leader has flushed");
    let follower = group.others(leader)[0];
    group.flush(follower);
    group.carry_without_flushes();
    assert_eq!(log.committed(), index);
    group.settle();
    for node in 0..3 {
        assert_eq!(group.log(node).committed(), index);
        assert_eq!(frames(&group.log(node)), frames(&log));
    }
}

#[test]
fn followers_refuse_appends_and_follow_positions_over_segments() {
    let mut group = Group::new(3);
    let leader = group.elect();
    let follower = group.others(leader)[0];
    let refused = group.log(follower).append(1, b"x").unwrap_err();
    assert!(matches!(refused, redstart_log::Error::NotLeading), "{refused}");
    let mut log = group.log(leader);
    for n in 0..60u64 {
        log.append(1000 + n, &vec![n as u8; 700]).unwrap();
        group.settle();
    }
    assert!(log.segments().len() > 4);
    for node in 0..3 {
        assert_eq!(frames(&group.log(node)), frames(&log));
    }
}

#[test]
fn a_tail_that_no_majority_has_is_replaced_by_that_of_the_next_leader() {
    let mut group = Group::new(3);
    let old = group.elect();
    group.log(old).append(1, b"everywhere").unwrap();
    group.settle();
    group.cut_off(old);
    for n in 0..10u64 {
        group.log(old).append(2, &vec![n as u8; 900]).unwrap();
    }
    group.flush(old);
    let lost = frames(&group.log(old)).len();
    let new = group.elect_among(&group.others(old));
    let kept = group.log(new).append(3, b"of the new leader").unwrap();
    group.settle();
    assert_eq!(group.log(new).committed(), kept.index);
    assert!(group.log(old).committed() < kept.index);
    group.heal();
    group.run_ms(1000);
    assert_eq!(group.replica(old).role(), Role::Follower);
    let now: Vec<Frame> = frames(&group.log(old));
    assert_eq!(now, frames(&group.log(new)));
    assert!(now.len() < lost);
    assert_eq!(group.log(old).committed(), kept.index);
}

#[test]
fn a_leader_without_a_majority_serves_no_longer_than_its_lease() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.run_ms(300);
    assert!(group.may_serve(leader));
    group.cut_off(leader);
    group.run_ms(400);
    assert!(!group.may_serve(leader), "the lease has ended");
    let new = group.elect_among(&group.others(leader));
    group.run_ms(300);
    assert!(group.may_serve(new));
    assert_ne!(group.replica(leader).role(), Role::Leader, "it found no majority");
}

#[test]
fn a_leader_whose_disk_does_not_answer_steps_down() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.run_ms(300);
    group.log(leader).append(1, b"not flushed here").unwrap();
    group.stall(leader);
    group.run_ms(400);
    assert_eq!(group.replica(leader).role(), Role::Leader);
    group.run_ms(200);
    assert_ne!(group.replica(leader).role(), Role::Leader);
    let new = group.elect_among(&group.others(leader));
    group.run_ms(300);
    assert!(group.may_serve(new));
    assert!(frames(&group.log(new)).iter().any(|frame| frame.payload[..] == b"not flushed here"[..]));
}

#[test]
fn leadership_is_handed_over_without_an_election_time() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.run_ms(300);
    let target = group.others(leader)[1];
    group.log(leader).append(1, b"last").unwrap();
    group.replica(leader).transfer_to(member(target)).unwrap().unwrap();
    assert!(!group.may_serve(leader), "the lease is given up first");
    assert!(matches!(group.log(leader).append(2, b"x"), Err(redstart_log::Error::NotLeading)));
    group.run_ms(50);
    assert_eq!(group.replica(target).role(), Role::Leader);
    group.run_ms(200);
    assert!(group.may_serve(target));
}

#[test]
fn a_handover_that_fails_ends_with_a_leader() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.run_ms(300);
    let target = group.others(leader)[0];
    group.cut_off(target);
    group.replica(leader).transfer_to(member(target)).unwrap().unwrap();
    group.run_ms(600);
    assert!(!group.may_serve(leader), "there is no lease for the rest of the term");
    group.run_ms(2500);
    let serving = (0..3).filter(|node| group.may_serve(*node)).count();
    assert_eq!(serving, 1);
}

#[test]
fn members_change_through_a_joint_membership() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.log(leader).append(1, b"before").unwrap();
    group.settle();
    let new = group.add_node();
    let gone = group.others(leader)[0];
    let refused = group.replica(gone).change_members(&[]).unwrap();
    assert_eq!(refused, Err(Refusal::NotLeading));
    group.replica(leader).change_members(&[Change::AddLearner(member(new))]).unwrap().unwrap();
    let again = group.replica(leader).change_members(&[Change::Remove(member(gone))]).unwrap();
    assert_eq!(again, Err(Refusal::ChangeUnderWay));
    group.run_ms(500);
    assert_eq!(group.replica(leader).membership().learners, [member(new)]);
    let acknowledged = group.replica(leader).acknowledged(member(new));
    assert_eq!(acknowledged, Some(group.log(leader).appended()));
    let changes = [Change::AddVoter(member(new)), Change::Remove(member(gone))];
    group.replica(leader).change_members(&changes).unwrap().unwrap();
    group.run_ms(500);
    let membership = group.replica(leader).membership();
    assert!(!membership.is_joint());
    assert!(membership.voters.contains(&member(new)) && !membership.voters.contains(&member(gone)));
    assert_eq!(group.replica(new).membership(), membership);
    group.restart(new);
    assert_eq!(group.replica(new).membership(), membership, "it is remembered");
    // The two that are left of the old members are a majority of the new ones.
    group.cut_off(gone);
    let index = group.log(leader).append(2, b"after").unwrap().index;
    group.run_ms(200);
    assert_eq!(group.log(leader).committed(), index);
}

#[test]
fn a_leader_that_is_removed_steps_down_when_that_is_committed() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.replica(leader).change_members(&[Change::Remove(member(leader))]).unwrap().unwrap();
    group.run_ms(3000);
    assert_ne!(group.replica(leader).role(), Role::Leader);
    let others = group.others(leader);
    assert_eq!(others.iter().filter(|node| group.may_serve(**node)).count(), 1);
    assert_eq!(group.replica(others[0]).membership().voters.len(), 2);
}

/// Appends frames, takes a checkpoint of them, and removes the oldest segments.
fn retire_some(group: &mut Group, leader: usize) -> Index {
    for n in 0..40u64 {
        group.log(leader).append(n, &vec![n as u8; 900]).unwrap();
        group.settle();
    }
    let mut log = group.log(leader);
    let at = log.committed();
    log.checkpoints().save(at, b"state").unwrap();
    for segment in &log.segments()[..3] {
        log.remove_oldest(segment.id).unwrap();
    }
    at
}

#[test]
fn a_new_member_gets_a_checkpoint_and_all_frames_that_are_left() {
    let mut group = Group::new(3);
    let leader = group.elect();
    let at = retire_some(&mut group, leader);
    let new = group.add_node();
    group.replica(leader).change_members(&[Change::AddLearner(member(new))]).unwrap().unwrap();
    group.run_ms(1000);
    assert!(!group.replica(new).is_catching_up());
    let (log, theirs) = (group.log(leader), group.log(new));
    assert_eq!(frames(&theirs), frames(&log));
    assert!(frames(&log)[0].index > Index(1));
    assert_eq!(theirs.committed(), log.committed());
    assert_eq!(theirs.checkpoints().load().unwrap().0[0], (at, b"state"[..].into()));
    assert_eq!(group.replica(new).membership(), group.replica(leader).membership());
    group.restart(new);
    assert_eq!(group.replica(new).membership().learners, [member(new)]);
    group.replica(leader).change_members(&[Change::AddVoter(member(new))]).unwrap().unwrap();
    group.run_ms(500);
    assert_eq!(group.replica(new).membership().voters.len(), 4);
}

#[test]
fn a_member_that_was_away_too_long_gets_a_checkpoint() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.run_ms(200);
    let away = group.others(leader)[0];
    group.cut_off(away);
    retire_some(&mut group, leader);
    group.heal();
    group.run_ms(2000);
    assert!(!group.replica(away).is_catching_up());
    let leader = group.elect();
    group.run_ms(500);
    assert_eq!(frames(&group.log(away)), frames(&group.log(leader)));
}

#[test]
fn a_checkpoint_that_is_lost_on_its_way_is_sent_again() {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.run_ms(200);
    let away = group.others(leader)[0];
    group.cut_off(away);
    retire_some(&mut group, leader);
    group.heal();
    group.lose_checkpoints(1);
    group.run_ms(20_000);
    let leader = group.elect();
    assert_eq!(group.checkpoints_to_lose(), 0);
    assert_eq!(frames(&group.log(away)), frames(&group.log(leader)));
}

#[test]
fn what_was_committed_is_there_after_all_members_were_started_again() {
    let mut group = Group::new(3);
    let leader = group.elect();
    let index = group.log(leader).append(1, b"kept").unwrap().index;
    group.run_ms(100);
    let before = frames(&group.log(leader));
    for node in 0..3 {
        group.restart(node);
    }
    let leader = group.elect();
    group.run_ms(300);
    assert_eq!(frames(&group.log(leader))[..before.len()], before);
    assert!(group.log(leader).committed() > index);
}

#[test]
fn a_log_of_a_node_that_was_alone_is_the_beginning_of_a_group() {
    let mut group = Group::with_frames_of_one(3, 30);
    let leader = group.elect();
    assert_eq!(leader, 0, "the others have no frames");
    group.run_ms(500);
    for node in 0..3 {
        let log = group.log(node);
        assert_eq!(log.committed(), Index(31));
        let payloads = |log: &dyn Log| {
            frames(log).into_iter().map(|frame| (frame.position, frame.payload)).collect::<Vec<_>>()
        };
        assert_eq!(payloads(&log), payloads(&group.log(leader)));
    }
}

#[test]
fn messages_that_no_member_sends_are_refused() {
    use raft::eraftpb::{Entry, Message, MessageType};
    let mut group = Group::new(3);
    let leader = group.elect();
    group.settle();
    let node = group.others(leader)[0];
    let (to, from) = (u64::from(node as u32 + 1) << 32, u64::from(leader as u32 + 1) << 32);
    let good = Message { to, from, term: 1, msg_type: MessageType::MsgHeartbeat, ..Message::default() };
    let now = group.now(node);
    assert_eq!(group.replica(node).receive(now, good.clone()).unwrap(), Ok(()));
    let entry = |term, index| Entry { term, index, ..Entry::default() };
    let bad = [
        Message { to: from, ..good.clone() },
        Message { from: to, ..good.clone() },
        Message { from: 0, ..good.clone() },
        Message { term: 0, ..good.clone() },
        Message { commit: 1000, ..good.clone() },
        Message { msg_type: MessageType::MsgHup, ..good.clone() },
        Message { msg_type: MessageType::MsgPropose, ..good.clone() },
        Message { msg_type: MessageType::MsgReadIndex, ..good.clone() },
        Message { msg_type: MessageType::MsgTransferLeader, ..good.clone() },
        Message { msg_type: MessageType::MsgAppend, entries: vec![entry(1, 3)], ..good.clone() },
        Message { msg_type: MessageType::MsgAppend, entries: vec![entry(2, 1)], ..good.clone() },
        Message { msg_type: MessageType::MsgAppend, entries: vec![entry(1, 1), entry(0, 2)], ..good },
    ];
    for message in bad {
        let refused = group.replica(node).receive(now, message.clone()).unwrap();
        assert!(matches!(refused, Err(Refusal::Message(_))), "{message:?}");
    }
}
