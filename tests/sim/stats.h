/*
 * What happened in a run, counted: so that a simulation in which nothing happens is noticed.
 */
#pragma once

#include <stdint.h>

#define SIM_STATS(X)                                                                               \
    X(runs, "runs")                                                                                \
    X(broken, "of them with an assumption broken on purpose")                                      \
    X(steps, "steps of shipped machines")                                                          \
    X(switches, "times that a thread began to run")                                                \
    X(commands, "commands executed by servers")                                                    \
    X(takes, "locks taken")                                                                        \
    X(natives, "of them by native commands")                                                       \
    X(natives_believed, "of these, believed as they are")                                          \
    X(joins, "times that somebody stood in line, or looked how far it has come")                   \
    X(joins_leased, "of these, by the phase of a migration")                                       \
    X(calls, "turns in line of those who acquire the lock by themselves")                          \
    X(grants, "locks taken from the line")                                                         \
    X(grants_told, "of these, by message")                                                         \
    X(reasked, "takes that found themselves the holder")                                           \
    X(renumbered, "of these, that were given another fence")                                       \
    X(two_holders, "two at once inside their validity, in those")                                  \
    X(fences_back, "fences no larger than the last, in those")                                     \
    X(takeovers, "locks taken over from one that crashed")                                         \
    X(expiries, "locks taken after another's had expired")                                         \
    X(keeps, "renewals and extensions confirmed")                                                  \
    X(extends, "extensions by hand")                                                               \
    X(releases, "releases confirmed")                                                              \
    X(busy, "acquires ended BUSY")                                                                 \
    X(timedout, "acquires ended TIMEDOUT")                                                         \
    X(cancelled, "acquires ended CANCELLED")                                                       \
    X(uncertain, "operations ended UNCERTAIN")                                                     \
    X(unavailable, "operations ended UNAVAILABLE")                                                 \
    X(cleaned, "abandoned requests cleaned up")                                                    \
    X(late_refused, "takes and keeps refused as too late")                                         \
    X(spent_refused, "takes refused as dropped already")                                           \
    X(sidecars_gone, "sidecars of released locks that had expired")                                \
    X(bound_refused, "takes refused by S while K was gone")                                        \
    X(undone, "locks taken after their client had given up, to be undone")                         \
    X(orphans, "locks taken by a late request after all clean-up: orphans")                        \
    X(native_orphans, "of these, by native commands")                                              \
    X(kills, "connections that their client had ended, after a take that went unanswered")         \
    X(kills_in_time, "of these, before what they had sent was executed")                           \
    X(at_risk, "locks at risk")                                                                    \
    X(saved, "locks at risk and held again")                                                       \
    X(lost_expired, "locks lost: expired")                                                         \
    X(lost_taken, "locks lost: taken")                                                             \
    X(lost_gone, "locks lost: gone")                                                               \
    X(lost_max_hold, "locks lost: longest hold over")                                              \
    X(lost_disrupted, "locks lost: the machine was paused")                                        \
    X(lost_stalled, "locks lost: stalled")                                                         \
    X(stalls, "locks at risk since their holder gave no sign of life")                             \
    X(revived, "of these, locks held again")                                                       \
    X(rests, "locks that began to rest")                                                           \
    X(rests_again, "requests for rests that had begun")                                            \
    X(rests_over, "locks taken after a rest")                                                      \
    X(rests_end_waits, "waits that a rest ended")                                                  \
    X(passed, "locks passed on within a process")                                                  \
    X(handed, "of these, locks that were told so")                                                 \
    X(overtaken, "holds that came before a waiter's, at most in a run (summed over runs)")         \
    X(refreshed, "renewals the short way")                                                         \
    X(refreshed_not, "that had to go the long one")                                                \
    X(joined, "renewals in a request with others")                                                 \
    X(begun, "operations begun without blocking")                                                  \
    X(lent, "turns of a loop that reads and writes itself")                                        \
    X(freed, "locks freed with one of them in flight")                                             \
    X(told, "events told")                                                                         \
    X(clients, "clients opened")                                                                   \
    X(closes, "clients closed")                                                                    \
    X(lookups, "names looked up")                                                                  \
    X(lookups_failed, "names that were not found")                                                 \
    X(starved, "threads that got the processor late")                                              \
    X(shortened, "reads and writes of a part")                                                     \
    X(woken, "waiters woken by a message")                                                         \
    X(disarmed, "waiters told that nobody will wake them")                                         \
    X(steps_seen, "times a server's clock was seen to have stepped")                               \
    X(too_few, "writes that too few replicas confirmed")                                           \
    X(quiet_refused, "takes refused since the server has restarted")                               \
    X(by_text, "scripts sent again by their text")                                                 \
    X(slow, "messages in flight for long")                                                         \
    X(lost_requests, "requests lost")                                                              \
    X(lost_replies, "replies lost after execution")                                                \
    X(stuck, "requests stuck in a buffer")                                                         \
    X(late, "requests executed after their connection was closed")                                 \
    X(resets, "connections reset")                                                                 \
    X(refused, "connections refused")                                                              \
    X(time_limits, "requests that ran out of time")                                                \
    X(stale, "hosts stopped between reading the clock and acting")                                 \
    X(partitions, "partitions")                                                                    \
    X(pauses, "hosts stopped")                                                                     \
    X(crashes, "hosts crashed")                                                                    \
    X(server_pauses, "servers stopped")                                                            \
    X(restarts, "servers restarted")                                                               \
    X(failovers, "failovers")                                                                      \
    X(stays, "of these, with the old master as a replica that keeps its connections")              \
    X(repeated, "messages that a replica has repeated to who listens there")                       \
    X(flushes, "script caches flushed")                                                            \
    X(ooms, "times memory was full")                                                               \
    X(deletes, "keys deleted by hand")                                                             \
    X(wall_steps, "wall clocks stepped")                                                           \
    X(slews, "deadline clocks and servers' clocks slewed to another rate")                         \
    X(off_rates, "times that a clock was slewed beyond what is assumed")                           \
    X(freezes, "hosts paused with their clocks")                                                   \
    X(forks, "processes forked")                                                                   \
    X(forked_locks, "locks that a forked child was refused")                                       \
    X(denies, "times a command was forbidden")                                                     \
    X(forbidden, "requests refused since a command is forbidden")                                  \
    X(crossslot, "requests refused since their keys lie in several slots")                         \
    X(moves, "times that slots went elsewhere, or were on the way")                                \
    X(moved, "requests refused since their slot is elsewhere")                                     \
    X(split, "requests refused since only some of their keys have left")                           \
    X(key_denies, "times that keys were forbidden")                                                \
    X(keys_forbidden, "requests refused since a key is forbidden")                                 \
    X(tracked, "connections that are told of changes by tracking")                                 \
    X(unequal, "runs with hosts at unequal distances")                                             \
    X(promoted_ahead, "failovers to a clock that is ahead")                                        \
    X(promoted_behind, "failovers by which the server's time goes back")                           \
    X(plain_takes, "locks taken by plain clients")                                                 \
    X(java_takes, "locks taken by Java clients")                                                   \
    X(java_takeovers, "stamps taken over by Java clients")                                         \
    X(java_undercuts, "stamps that a Java client replaced by an earlier one and lost")             \
    X(java_orphans, "stamps that a Java client left behind for nobody")                            \
    X(java_throws, "exceptions in Java clients")                                                   \
    X(java_robberies, "Java locks stolen by Java clients within their lifetime")                   \
    X(java_overstays, "Java holders that outstayed their lifetime and were succeeded")             \
    X(mixed_robberies, "token or plain holders whose key a Java client overwrote or deleted")

/** With Sentinels only. */
#define SIM_SENTINEL_STATS(X)                                                                      \
    X(switched, "failovers by Sentinels")                                                          \
    X(died, "of these, with a master that is dead")                                                \
    X(returned, "that comes back as a master")                                                     \
    X(woke, "that is stopped, and wakes")                                                          \
    X(parted, "that is cut off, with some hosts")                                                  \
    X(led, "that is led to be a replica")                                                          \
    X(there_and_back, "of all these, back to the one before")                                      \
    X(unfollowed, "of these, to one that was no replica in between")                               \
    X(asides, "times that a Sentinel was dead, or cut off from a host")                            \
    X(questions, "questions answered by Sentinels")                                                \
    X(switches_read, "switches that a client has heard of by a message")                           \
    X(former_commands, "commands executed by a former master that didn't know of it")              \
    X(former_takes, "of these, that gave a lock")                                                  \
    X(former_keeps, "and that renewed one")                                                        \
    X(former_believed, "locks of a former master that counted")                                    \
    X(unconfirmed_keeps, "renewals answered that didn't count, as the server wasn't named")        \
    X(foreign, "requests not sent, as they were built for another server")                         \
    X(overlaps, "two at once inside their validity, where nothing is promised")

/** With a cluster only. */
#define SIM_CLUSTER_STATS(X)                                                                       \
    X(rests_alone, "locks that began to rest by their key alone")                                  \
    X(maps, "times that a node told which slots are where")                                        \
    X(slots_closed, "slots that have moved")                                                       \
    X(keys_moved, "keys that have moved with them")                                                \
    X(keys_back, "keys of a lock that had expired there, and came back where a clock is behind")   \
    X(atomic, "slots that have moved at one moment")                                               \
    X(atomic_failed, "and that stayed, as their migration failed")                                 \
    X(postponed, "times that a connection waited for the end of its pause")                        \
    X(doubted, "masters that wrote again without knowing whose a slot is")                         \
    X(cluster_down, "requests refused since the node has lost the others")                         \
    X(astray, "requests executed by a master that didn't know that the slot was open")             \
    X(alone_takes, "locks taken by requests of one key each")                                      \
    X(alone_late, "of these, at a node that their slot's owner sent nobody to any more")           \
    X(late_counts, "of these, that were the holder's afterwards")                                  \
    X(alone_keeps, "and renewed so")                                                               \
    X(alone_drops, "and given back so")

/** With a quorum only. */
#define SIM_QUORUM_STATS(X)                                                                        \
    X(votes, "votes given by servers of a quorum")                                                 \
    X(votes_again, "of these, to a holder whose vote was gone")                                    \
    X(votes_raised, "votes whose number was brought up to another's")                              \
    X(votes_refused, "votes refused, as another had it")                                           \
    X(votes_withheld, "votes withheld, as the server may have forgotten")                          \
    X(votes_late, "votes given after their client had moved on")                                   \
    X(votes_cancelled, "of these, as it was told to stop")                                         \
    X(votes_orphaned,                                                                              \
      "votes given when what takes them back had overtaken them, and was forgotten")               \
    X(votes_back, "votes given back")                                                              \
    X(votes_kept, "votes renewed")                                                                 \
    X(shared, "locks had by some of the servers only")                                             \
    X(lost_kept, "locks that were renewed and lost, before their longest hold was over")           \
    X(emptied, "servers restarted empty")                                                          \
    X(few, "times that a majority of the servers was dead")                                        \
    X(apart, "times that servers were cut off from hosts")                                         \
    X(same, "places of a URL refused, as another led to the same server")                          \
    X(tries_most, "requests about votes since a release, at most in a run (summed over runs)")

/** With an etcd only. */
#define SIM_ETCD_STATS(X)                                                                          \
    X(etcd_changes, "changes of keys on etcd")                                                     \
    X(etcd_waits, "keys put behind others'")                                                       \
    X(etcd_expired, "keys whose lease ran out")                                                    \
    X(etcd_orphans, "keys made by a request that came late, for nobody")                           \
    X(etcd_elections, "times that another member led")                                             \
    X(etcd_stale, "members that woke and called themselves the leader")                            \
    X(etcd_unled, "times that no member led")                                                      \
    X(etcd_pending, "requests that a member could not answer at once")                             \
    X(etcd_timeouts, "of these, told as errors")                                                   \
    X(etcd_crossed, "puts and leases that were refused for want of space, and were executed")      \
    X(etcd_doubts, "times that errors were told of what may be executed later")                    \
    X(etcd_compactions, "times that the history was compacted")                                    \
    X(etcd_wedges, "times that streams of watches went silent")                                    \
    X(etcd_logins, "times that tokens of logins ran out")                                          \
    X(etcd_apart, "times that members were cut off")

/** With stamps only. */
#define SIM_STAMP_STATS(X)                                                                         \
    X(stamp_takes, "stamps written without a script that acquired a lock")                         \
    X(reclaims, "stamps of racing losers recognised and replaced by their holder")                 \
    X(stolen_back, "of them while a Java client was inside its job")                               \
    X(stamps_over, "stamps that had run out taken over by tidelock clients")                       \
    X(undercuts, "stamps that a loser without scripts replaced by its own")                        \
    X(left_stamps, "stamps left for a lifetime by a request that was given up")                    \
    X(kept_away, "requests kept from being executed later than is assumed")                        \
    X(stolen, "tidelock holders told that their lock was stolen")                                  \
    X(watch_takes, "locks taken by WATCH and MULTI")                                               \
    X(watch_keeps, "locks renewed by WATCH and MULTI")                                             \
    X(watch_raced, "transactions not executed, since others had touched the lock")                 \
    X(watch_late, "transactions executed after their connection was closed")                       \
    X(watch_parts, "transactions executed without what was refused")                               \
    X(dialect_takes, "locks taken by legacy clients of another dialect than Java's")               \
    X(java_overwrites, "stamps that a legacy waiter overwrote at a mere poll")                     \
    X(stamps_promoted, "failovers with stamps")                                                    \
    X(stamps_swapped, "stamps renewed by requests of one key each, in a cluster")                  \
    X(stamps_freed, "and given back so")                                                           \
    X(stamps_too_few, "writes with stamps that too few replicas confirmed")                        \
    X(legacy_broken, "runs with an assumption about legacy clients broken on purpose")             \
    X(legacy_two, "two at once inside their validity, in those")

/** Migrations only. */
#define SIM_PHASE_STATS(X)                                                                         \
    X(steps_on, "times the phase was advanced")                                                    \
    X(steps_back, "times it was set back")                                                         \
    X(planned, "plans of steps carried out to their end")                                          \
    X(steps_raced, "steps refused since another operator was faster")                              \
    X(steps_early, "beginnings refused since a client was two phases away")                        \
    X(steps_late, "steps refused as too late")                                                     \
    X(steps_elsewhere, "steps refused by another server than was judged")                          \
    X(unconfirmed, "epochs that not all replicas have confirmed in time")                          \
    X(epochs_undone, "changes of the register undone by a failover")                               \
    X(remade, "registers made again above what clients know")                                      \
    X(seen_anew, "waits begun anew as another server may answer")                                  \
    X(phases_missed, "phases that a client has missed altogether")                                 \
    X(late_phases, "takes of a phase before refused as too late")                                  \
    X(phases_overtaken, "takes by a phase after which another thread had read a later one")        \
    X(phases_followed, "new phases that a client has heard of")                                    \
    X(takes_0, "locks taken in phase 0")                                                           \
    X(takes_1, "locks taken in phase 1")                                                           \
    X(takes_2, "locks taken, or turned into tokens, in phase 2")                                   \
    X(takes_3, "locks taken in phase 3")                                                           \
    X(denied, "acquires refused as the register has gone, or is an older one")                     \
    X(drained, "stamps turned into tokens by their holders")

/** By the shipped command only. */
#define SIM_TOOL_STATS(X)                                                                          \
    X(tool_runs, "runs of the command to their end")                                               \
    X(tool_steps, "steps made by it")                                                              \
    X(tool_inits, "registers made by it")                                                          \
    X(tool_sweeps, "sweeps")                                                                       \
    X(tool_refused, "steps refused by it, or given up")                                            \
    X(tool_stale, "steps refused as the phase was no more what its operator had seen")             \
    X(tool_named, "legacy clients named by MONITOR")                                               \
    X(tool_by_monitor, "steps to phase 2 by MONITOR alone, as the counts did not do")              \
    X(tool_doubts, "times that counts of SETNX and GETSET left a doubt")                           \
    X(tool_strays, "times that a legacy client's stamp was in the way")                            \
    X(tool_strangers, "times that a lock was which doesn't follow the phase")                      \
    X(tool_behind, "times that a client was which hadn't read the phase")                          \
    X(tool_set_back, "times that the register had been set back")                                  \
    X(tool_waits, "times that it has waited for what goes away by itself")                         \
    X(tool_java_waits, "times that Java was told to wait")                                         \
    X(tool_unseen, "steps to phase 2 while a job that is forgotten didn't run")                    \
    X(tool_unreached, "runs that didn't reach the server, or lost it")                             \
    X(tool_interrupted, "runs interrupted")                                                        \
    X(tool_killed, "runs that ended with their host")

/** With Java's drop-in only. */
#define SIM_DROP_IN_STATS(X)                                                                       \
    X(drop_in_takes, "locks taken by services with the drop-in")                                   \
    X(drop_in_throws, "exceptions in these")                                                       \
    X(drop_in_repeats, "requests that they have sent again")                                       \
    X(drop_in_takeovers, "stamps taken over by them")                                              \
    X(drop_in_phases, "new phases that they have heard of")                                        \
    X(drop_in_refuses, "registers of an older epoch that they have found")                         \
    X(drop_in_undoes, "requests without a reply, or waits in vain, that they have undone")         \
    X(drop_in_joins, "polls in the queue")                                                         \
    X(drop_in_turns, "locks given to those that poll there")                                       \
    X(drop_in_renewals, "renewals by them")                                                        \
    X(drop_in_drains, "stamps that they have turned into tokens")                                  \
    X(drop_in_takes_back, "stamps of losers that they have replaced")                              \
    X(drop_in_lost, "locks that they have found lost")

typedef struct {
#define SIM_STAT_FIELD(name, words) int64_t name;
    SIM_STATS(SIM_STAT_FIELD)
    SIM_SENTINEL_STATS(SIM_STAT_FIELD)
    SIM_CLUSTER_STATS(SIM_STAT_FIELD)
    SIM_QUORUM_STATS(SIM_STAT_FIELD)
    SIM_ETCD_STATS(SIM_STAT_FIELD)
    SIM_STAMP_STATS(SIM_STAT_FIELD)
    SIM_PHASE_STATS(SIM_STAT_FIELD)
    SIM_TOOL_STATS(SIM_STAT_FIELD)
    SIM_DROP_IN_STATS(SIM_STAT_FIELD)
#undef SIM_STAT_FIELD
} sim_stats;
