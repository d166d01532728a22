/// Hands the list of behaviours, by topic, to another macro, after what that one is given itself.
#[doc(hidden)]
#[macro_export]
macro_rules! behaviours {
    (($($then:tt)*) ($($given:tt)*)) => {
        $($then)*! { ($($given)*)
            submit {
                a_submission_can_be_claimed_right_after_the_call
                a_submission_without_wishes_gets_the_usual_place
                everything_a_submission_says_is_kept
                input_bytes_stay_bytes
                an_empty_input_is_an_empty_payload
                a_delayed_submission_waits_for_its_time
                a_submission_may_name_the_moment_it_starts
                a_start_in_the_past_or_now_is_claimable_at_once
                a_held_submission_is_claimable_only_when_unheld
                a_held_and_delayed_submission_needs_both_to_pass
                a_paused_lane_takes_submissions_in
                a_draining_lane_refuses_submissions
                a_deadline_in_the_past_is_refused
                a_batch_is_answered_in_its_order
                a_batch_with_one_bad_item_submits_nothing
                a_refused_batch_lists_every_violation
                a_batch_refused_by_the_state_of_things_lists_every_reason
                a_uuid_of_any_version_may_be_the_id
                minted_ids_are_of_version_seven_and_in_order_of_time
                a_submission_is_told_as_one_event
            }
            idempotency {
                the_same_request_under_the_same_key_is_a_duplicate_of_the_first
                another_request_under_the_same_key_is_a_conflict
                a_repeated_wish_to_start_later_is_the_same_request_at_any_time
                the_same_request_under_two_keys_is_two_executions
                the_same_request_under_the_same_id_is_a_duplicate
                another_request_under_the_same_id_is_a_conflict
                the_same_key_twice_in_a_batch_is_one_execution
                the_same_id_twice_in_a_batch_is_one_execution
                a_key_used_twice_in_a_batch_for_two_requests_refuses_all_of_it
                a_batch_may_hold_both_new_work_and_duplicates
                submissions_that_share_a_transaction_share_their_keys
                a_key_is_held_as_long_as_its_execution_is_not_over
                a_key_is_forgotten_a_day_after_the_end
                the_window_of_a_key_is_a_policy
                a_key_outlives_its_removed_execution_until_its_window_is_over
                an_explicit_delete_frees_key_and_id
                a_replayed_execution_holds_its_key_again
                the_end_of_an_execution_does_not_free_a_key_another_took_over
                the_retention_of_an_execution_does_not_free_a_key_another_took_over
                a_key_belongs_to_its_namespace
                keys_survive_a_restart
            }
            inbox {
                a_request_becomes_an_execution_and_disappears
                everything_the_options_say_is_kept
                the_input_of_a_request_stays_as_it_is
                requests_are_applied_in_the_order_they_came_in
                a_request_is_due_at_once
                the_clock_tells_that_requests_wait
                a_promised_id_is_kept
                a_promised_id_is_no_part_of_what_was_asked_for
                a_promised_id_that_was_taken_is_refused
                a_request_under_a_used_key_is_a_duplicate
                a_request_the_rule_refuses_stays_with_its_error
                options_that_can_not_be_read_are_refused_with_their_error
                a_refused_request_does_not_hold_up_the_others
                a_refused_request_is_not_tried_again_by_itself
                a_refused_request_can_be_retried
                a_request_can_be_deleted
                a_request_that_is_not_there_can_not_be_retried_or_deleted
                requests_are_counted
                the_inbox_is_applied_in_slices
                two_that_apply_the_inbox_share_it
                refused_requests_are_listed_in_pages
                the_inbox_survives_a_restart
            }
            claim {
                a_claim_that_finds_nothing_changes_nothing
                a_lease_tells_all_that_its_holder_needs
                higher_priority_goes_first_then_earlier_submission
                lanes_are_emptied_in_the_order_given
                a_claim_takes_no_more_than_it_asked_for
                a_lane_named_twice_gives_its_work_once
                claims_of_one_transaction_never_share_work
                work_that_can_not_be_claimed_hides_nothing_behind_it
                retried_work_keeps_its_rank
                resumed_work_keeps_its_rank
                replayed_work_keeps_its_rank
                released_revoked_and_reclaimed_work_keeps_its_rank
                work_that_was_held_keeps_its_rank
                attempts_are_numbered_from_one
                the_first_claim_is_when_work_started
                inputs_that_do_not_fit_into_the_answer_are_left_to_be_read
                a_commit_tells_which_work_became_claimable
                a_commit_tells_what_ended_and_what_is_due
            }
            routes {
                a_worker_gets_only_the_kinds_it_serves
                a_worker_that_names_no_kinds_serves_them_all
                a_worker_needs_every_capability_that_is_required
                the_order_and_number_of_capability_tokens_does_not_matter
                order_holds_across_all_the_kinds_a_worker_serves
                ten_thousand_better_placed_of_another_kind_hide_nothing
                ten_thousand_better_placed_beyond_its_capabilities_hide_nothing
                a_kind_that_appears_later_reaches_workers_that_asked_before
                a_kind_whose_submission_was_rolled_back_can_be_submitted
                routes_survive_a_restart
            }
            grants {
                reserved_work_is_nobody_elses
                a_claim_that_reserves_follows_the_same_order
                a_grant_begins_no_attempt_until_it_is_redeemed
                a_redeemed_grant_is_a_lease
                a_grant_is_redeemed_by_its_worker_only
                a_forged_grant_is_refused
                redeeming_twice_gives_the_same_lease
                redeeming_twice_gives_the_same_lease_also_when_it_continues_an_attempt
                a_grant_whose_lease_has_ended_is_of_no_use
                an_unused_grant_lapses_to_where_the_work_was
                a_lapsed_grant_can_not_be_redeemed_even_before_the_clock_noticed
                a_grant_is_not_a_lease
                a_revoked_grant_goes_back_to_where_the_work_was
                a_held_grant_goes_back_and_is_held
                cancelling_reserved_work_ends_it_at_once
                a_grant_survives_a_restart
                a_claim_by_id_passes_what_stands_before
                a_claim_by_id_refuses_what_is_not_claimable_and_says_what_it_is
                a_claim_by_id_refuses_held_work
                a_claim_by_id_refuses_work_of_a_paused_lane
                a_claim_by_id_refuses_work_of_a_full_lane
                a_claim_by_id_names_the_capabilities_that_are_missing
                a_claim_by_id_takes_up_work_whose_lease_just_ran_out
                a_claim_by_id_takes_up_work_whose_delay_just_ended
                a_claim_by_id_does_not_revive_work_whose_deadline_just_passed
                a_claim_by_id_of_nothing_is_not_found
            }
            fence {
                an_expired_lease_can_do_nothing_even_before_the_clock_noticed
                an_expired_lease_can_do_nothing_after_its_work_was_taken_up
                a_lease_is_held_until_the_last_millisecond
                a_revoked_lease_can_do_nothing
                the_lease_of_cancelled_work_can_do_nothing
                a_lease_from_before_its_worker_registered_again_can_do_nothing
                the_lease_of_expired_work_can_do_nothing
                the_lease_of_a_timed_out_attempt_can_do_nothing
                a_lease_that_completed_can_only_repeat_that
                a_lease_that_failed_can_only_repeat_that
                a_lease_that_slept_can_only_repeat_that
                a_lease_that_was_given_back_can_only_repeat_that
                a_wrong_secret_is_refused_whatever_the_state
                a_forged_epoch_is_refused
                a_lease_of_an_earlier_attempt_can_not_finish_a_later_one
                a_lease_is_unknown_in_another_namespace
                a_repeated_complete_is_answered_for_ever
                a_repeated_fail_returns_the_first_retry_for_ever
                a_repeated_fail_returns_the_first_verdict_for_ever
                a_repeated_delay_returns_the_first_time_for_ever
                a_repeated_release_is_answered_for_ever
                a_repeated_acknowledgement_is_answered_for_ever
                the_first_result_wins
                every_change_of_owner_raises_the_epoch
                a_renewal_prolongs_the_lease_from_now
                a_renewal_may_change_how_long_the_lease_lasts
                renewals_are_answered_one_by_one_in_their_order
                progress_is_merged_and_seen
                a_late_call_about_removed_work_is_not_found
            }
            retry {
                a_failure_that_may_pass_is_tried_again
                a_permanent_failure_is_not_tried_again
                waits_double_and_are_shortened_to_no_less_than_half
                waits_are_exact_without_jitter
                the_backoff_is_a_policy
                retry_after_wins_over_the_backoff
                a_retry_after_no_time_is_claimable_at_once
                retry_after_does_not_grant_more_retries
                the_last_retry_that_fails_ends_it
                a_policy_may_list_the_classes_and_categories_it_retries
                release_revoke_expiry_and_sleep_use_no_retry
                every_attempt_is_in_the_history_with_its_end
                a_policy_is_filled_from_lane_then_namespace_then_the_built_in_one
                a_priority_is_filled_from_lane_then_namespace_then_the_built_in_one
                a_policy_is_frozen_when_it_is_submitted
                fallbacks_are_handed_out_by_the_retries_used
                a_retry_is_told_as_one_event
            }
            delay {
                a_sleep_continues_the_same_attempt_under_a_new_lease
                a_sleep_may_name_the_moment_it_ends
                a_sleep_that_is_over_already_is_resumable_at_once
                a_sleep_needs_exactly_one_time
                an_attempt_that_slept_is_listed_once_for_each_lease
                a_resumed_attempt_that_loses_its_worker_is_over
                a_sleep_ends_in_a_paused_lane_too
                a_sleep_beyond_the_deadline_ends_with_it
                sleeping_does_not_count_towards_the_attempt_timeout
                a_release_ends_the_attempt_and_gives_the_work_to_another
            }
            cancel {
                work_that_nobody_does_is_cancelled_at_once
                held_work_is_cancelled_at_once_and_held_no_more
                a_worker_sees_the_request_when_it_renews
                a_cancel_is_honoured_by_an_acknowledgement
                a_cancel_is_honoured_by_a_failure
                a_cancel_is_honoured_by_a_release
                a_cancel_is_honoured_by_a_sleep
                a_cancel_is_forced_after_its_grace
                renewing_does_not_put_the_grace_off
                a_cancel_is_done_when_the_lease_ends
                a_cancel_is_done_when_the_attempt_times_out
                a_cancel_is_done_when_the_lease_is_revoked
                a_cancel_is_done_when_the_worker_is_gone
                a_forced_cancel_does_not_wait
                force_may_follow_a_request
                complete_wins_over_a_requested_cancel
                cancelling_twice_is_cancelling_once
                asking_twice_keeps_the_first_request
                what_ended_otherwise_is_already_terminal
                a_worker_may_cancel_its_own_work
                cancelling_nothing_is_not_found
                a_request_to_stop_is_told_before_the_end
                a_request_to_stop_survives_a_restart
            }
            operator {
                a_changed_priority_changes_the_order
                a_priority_changed_back_gives_the_old_place_back
                a_priority_can_be_changed_in_every_open_state_and_counts_afterwards
                a_priority_that_stays_the_same_is_no_change
                the_priority_of_ended_work_can_not_be_changed
                a_change_of_priority_is_told_with_both_values
                held_work_is_not_claimable_and_comes_back_unchanged
                time_goes_on_for_held_work
                holding_twice_is_holding_once
                active_work_can_not_be_held
                ended_work_can_neither_be_held_nor_unheld
                revoked_work_is_claimable_at_once
                a_revoke_may_expect_a_worker
                a_revoke_may_expect_a_lease
                what_nobody_owns_can_not_be_revoked
                a_revoke_is_told_with_who_and_why
                what_does_not_exist_is_not_found
            }
            lanes {
                a_paused_lane_hands_nothing_out_until_it_is_resumed
                a_paused_lane_lets_running_work_go_on
                a_draining_lane_hands_out_what_it_has
                a_lane_that_is_so_already_is_not_changed
                a_lane_nobody_used_can_not_be_paused
                putting_a_lane_keeps_its_mode
                putting_a_lane_replaces_its_defaults
                a_cap_counts_leases_and_grants
                a_full_lane_does_not_keep_a_worker_from_others
                completing_frees_a_slot
                failing_for_good_frees_a_slot
                failing_for_now_frees_a_slot
                sleeping_frees_a_slot
                releasing_frees_a_slot
                a_lease_that_expires_frees_a_slot
                an_attempt_that_times_out_frees_a_slot
                a_deadline_that_passes_frees_a_slot
                a_revoke_frees_a_slot
                a_forced_cancel_frees_a_slot
                an_acknowledged_cancel_frees_a_slot
                a_worker_that_is_gone_frees_a_slot
                every_end_of_a_grant_frees_a_slot
                a_redeemed_grant_keeps_its_slot
                a_cap_set_while_work_is_under_way_counts_it
                a_cap_that_was_lifted_counts_afresh_when_set_again
                a_cap_survives_a_restart
                a_replayed_execution_takes_no_slot_until_it_is_claimed
            }
            replay {
                work_that_ended_in_any_way_can_be_replayed
                only_ended_work_can_be_replayed
                work_is_replayed_as_often_as_its_policy_allows
                a_new_run_begins_with_nothing_used
                a_replay_forgets_the_result
                attempts_are_numbered_on_through_replays
                a_replay_begins_a_new_attempt_although_the_old_one_slept
                every_replay_has_as_much_time_as_the_first_run
                each_run_that_ended_has_one_terminal_event
                a_replay_is_told_with_what_it_follows
                replayed_work_is_not_removed_by_the_retention_of_its_former_end
            }
            deadline {
                a_deadline_ends_work_in_every_open_state
                a_deadline_ends_work_that_is_held_or_paused
                a_claim_passes_over_work_whose_deadline_just_passed
                a_deadline_ends_work_that_waits_for_its_retry
                renewing_does_not_put_the_deadline_off
                a_deadline_may_come_from_the_policy
                a_deadline_wins_over_a_lease_that_ends_at_the_same_time
                work_that_ended_in_time_does_not_expire
            }
            clock {
                work_of_a_vanished_worker_is_taken_up_by_another
                work_of_a_vanished_worker_is_taken_up_after_a_restart
                work_that_keeps_losing_its_worker_waits_longer_each_time
                work_that_lost_its_worker_too_often_fails
                work_may_lose_its_worker_ten_times_by_default
                work_that_may_not_lose_its_worker_fails_the_first_time
                a_workers_own_call_starts_the_count_of_lost_workers_anew
                renewing_alone_does_not_start_the_count_of_lost_workers_anew
                a_revoke_or_a_new_registration_is_not_a_lost_worker
                a_renewed_lease_does_not_expire
                an_attempt_that_takes_too_long_is_retried
                attempts_that_take_too_long_use_the_retries_up
                a_policy_may_choose_not_to_retry_timeouts
                each_claim_has_the_whole_attempt_timeout
                nothing_sticks
                everything_that_is_due_is_done_slice_by_slice
                a_tick_says_when_the_next_one_is_due
                a_tick_with_nothing_due_changes_nothing
                time_never_runs_backwards
                a_clock_that_jumps_far_ahead_still_does_everything_once
            }
            workers {
                a_new_worker_is_registered
                a_known_worker_is_refreshed_and_keeps_when_it_registered
                an_instance_belongs_to_one_worker_name_while_it_lives
                a_heartbeat_prolongs_a_workers_life
                a_heartbeat_never_revives
                a_heartbeat_keeps_the_leases_and_is_no_event
                liveness_is_judged_when_it_is_read
                a_worker_not_heard_of_is_forgotten_by_the_clock
                the_leases_of_a_forgotten_worker_run_out_by_themselves
                a_worker_marked_dead_is_gone_with_all_it_owned
                a_worker_that_registers_again_loses_all_it_owned
                a_worker_that_claimed_before_it_registered_loses_that_too
                reserved_work_of_a_gone_worker_goes_back_to_where_it_was
                the_work_of_other_workers_is_left_alone
                a_worker_with_many_leases_loses_the_rest_by_the_clock
                workers_are_listed_page_by_page
                registrations_are_told_as_events
                workers_survive_a_restart
                a_worker_belongs_to_its_namespace
                leases_that_ran_out_are_listed_oldest_first
                leases_that_ran_out_are_listed_page_by_page_without_gaps_or_repeats
                a_lease_that_was_taken_up_again_is_not_listed_as_run_out
            }
            events {
                a_follower_misses_nothing_and_repeats_nothing
                a_follower_of_kinds_misses_nothing_and_repeats_nothing
                a_follower_of_a_namespace_misses_nothing_and_repeats_nothing
                a_follower_of_a_lane_misses_nothing_and_repeats_nothing
                a_follower_of_an_execution_misses_nothing_and_repeats_nothing
                a_follower_of_an_execution_in_its_namespace_misses_nothing
                a_follower_of_tags_sees_what_had_them_when_it_happened
                a_follower_of_an_execution_sees_its_removal_and_its_second_life
                a_follower_may_begin_now
                a_follower_of_what_does_not_exist_yet_sees_it_come
                a_page_without_matches_still_moves_the_cursor
                an_empty_log_can_be_followed
                a_cursor_whose_events_were_removed_says_so
                a_cursor_at_the_end_never_expires
                a_cursor_beyond_the_end_is_refused
                a_lane_filter_needs_its_namespace
                a_command_that_failed_after_its_work_leaves_no_trace
                a_command_that_failed_does_not_harm_those_beside_it
                renewals_are_told_only_when_asked_for
                every_end_is_told_exactly_once
                causes_come_before_effects
                an_event_says_what_it_is_about
                every_kind_of_event_happens
            }
            reads {
                what_does_not_exist_is_not_found
                a_result_is_there_when_it_is_completed_and_not_before
                every_state_has_its_vector
                the_vector_shows_holds_pauses_and_leases_that_ran_out
                executions_are_listed_newest_first
                pages_have_no_gaps_and_no_repeats_although_work_goes_on
                a_list_may_ask_for_states
                a_list_may_ask_for_one_thing_at_a_time
                a_list_may_ask_for_everything_at_once
                a_list_may_ask_for_what_is_held
                a_list_may_ask_for_a_range_of_time
                a_list_may_ask_for_the_words_of_a_failure
                a_list_of_a_worker_has_its_leases_and_its_grants
                counts_are_a_recount_of_the_list
                a_lane_tells_its_depth_and_its_oldest
                lanes_are_listed_by_name_page_by_page
                attempts_are_listed_page_by_page
                about_tells_what_the_engine_is_and_can
                what_is_read_survives_the_wire
            }
            explain {
                every_state_is_explained
                waiting_work_tells_lane_priority_and_since_when
                a_hold_a_pause_and_a_full_lane_are_named
                held_work_that_sleeps_says_both
                a_lack_of_workers_that_serve_it_is_named
                a_retry_a_sleep_and_a_start_are_told_apart
                running_work_tells_who_has_it_and_whether_it_should_stop
                ended_work_tells_how_by_whom_and_why
            }
            tags {
                tags_are_merged_and_null_removes
                work_in_any_state_can_be_tagged
                changed_tags_are_found_and_old_ones_are_not
                a_tag_survives_whatever_happens_to_its_execution
                tags_that_stay_the_same_are_no_change
                a_change_of_tags_is_told_with_the_change
                there_are_never_more_tags_than_allowed
                a_tag_no_store_could_keep_is_refused
            }
            retention {
                ended_work_is_kept_for_a_week
                retention_counts_from_the_end_and_not_from_the_submission
                work_whose_retention_is_zero_is_kept_for_ever
                work_kept_for_long_does_not_keep_what_is_kept_briefly
                removed_work_leaves_nothing_but_its_events
                much_that_has_had_its_time_is_removed_at_once
                retention_goes_on_after_a_restart
                an_id_whose_execution_was_removed_is_free
                events_are_kept_for_a_week
                events_may_be_kept_for_ever
                the_newest_event_is_never_removed
                a_change_of_the_interval_of_sweeps_is_respected
            }
            delete {
                ended_work_can_be_deleted
                work_that_has_not_ended_can_not_be_deleted
                the_events_of_deleted_work_stay
                deleting_one_leaves_the_others
                a_second_life_under_the_same_id_knows_nothing_of_the_first
            }
            limits {
                names_are_checked_wherever_they_occur
                payloads_are_limited
                the_limit_on_payloads_can_be_set
                batches_are_limited
                priorities_are_limited
                leases_grants_and_waits_are_limited
                durations_are_limited
                keys_are_limited
                tags_are_limited
                capabilities_are_limited
                reasons_and_messages_are_limited
                percentages_are_limited
                policies_are_checked_wherever_they_are_set
                options_of_capabilities_that_are_missing_are_unsupported
                a_lane_that_may_own_nothing_is_refused
                pages_are_limited
                what_is_just_within_its_limit_is_accepted
            }
            namespaces {
                the_same_id_in_two_namespaces_is_two_executions
                a_namespace_is_made_by_its_use
                claims_reads_and_counts_stay_within
                lanes_of_the_same_name_are_two_lanes
                kinds_of_the_same_name_do_not_mix
                defaults_of_a_namespace_hold_for_later_submissions_there
                the_clock_serves_every_namespace
            }
            random {
                a_random_walk_keeps_every_promise_and_takes_every_transition
            }
        }
    };
}

/// Makes one test of each behaviour, in a module for each topic.
///
/// `open` is a function that makes a [`Place`](crate::Place) with a fresh store.
#[macro_export]
macro_rules! suite {
    ($open:expr) => {
        $crate::behaviours! { ($crate::tests) ($open) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    (($open:expr) $($topic:ident { $($behaviour:ident)* })*) => {$(
        mod $topic {
            #[allow(unused_imports, reason = "an `open` named by its path needs none")]
            use super::*;

            $(#[test]
            fn $behaviour() {
                $crate::topics::$topic::$behaviour(&mut $crate::Lab::new($open()));
            })*
        }
    )*};
}

macro_rules! listed {
    (() $($topic:ident { $($behaviour:ident)* })*) => {
        /// The names of all behaviours, each with its topic.
        pub const BEHAVIOURS: &[&str] =
            &[$($(concat!(stringify!($topic), "::", stringify!($behaviour))),*),*];
    };
}

behaviours! { (listed) () }
