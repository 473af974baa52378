#!/bin/bash
# Checks every claim of the table below with Spin: run.sh [-j N] [--update] [pattern]
#
#   -j N       runs at a time (2)
#   --update   writes the kept stories in traces/ anew
#   pattern    only the rows whose name it matches
#
# One line a claim. Exit 0 if every row came out as the table says.
set -euo pipefail
export LC_ALL=C
here=$(cd "${BASH_SOURCE[0]%/*}" && pwd)

# name | model | defines | expected | what it says
#   safe      no run, of any length, breaks a claim
#   fails     a claim is broken, and the story shows how
#   happens   the event is possible: the safe rows beside it aren't empty
# A name that ends in * has its story kept in traces/. What begins with long- repeats a quick row at larger bounds.
table() {
    cat <<'ROWS'
token-two          |token |-DN=2 -DZ=0 -DRIVAL -DSIMPLE            |safe   |two clients and a rival: one holder, requests and answers lost or late
token-late         |token |-DZ=1 -DRIVAL                           |safe   |one late request in a buffer: one holder, and what is reported finished is free
token-late-two     |token |-DZ=2 -DRIVAL -DSIMPLE                  |safe   |two late requests in buffers: one holder
token-longer       |token |-DZ=1 -DRIVAL -DSIMPLE -DT=5 -DLIMIT=3  |safe   |the same with T = 5: one holder
token-plain        |token |-DZ=1 -DRIVAL -DSIMPLE -DPLAIN          |safe   |beside a client of SET NX PX and compare-and-delete: one holder
token-orphan       |token |-DZ=1 -DRIVAL -DSIMPLE -DLIMIT=1 -DWATCH_ORPHANS -DONLY=ORPHAN |safe|nothing is left of a client LIMIT + T after it moved on
token-late-keep-one|token |-DZ=1 -DRIVAL -DSIMPLE -DLATE_KEEPS     |safe   |keeps without not_after: still one holder
token-late-take-one|token |-DZ=1 -DRIVAL -DSIMPLE -DNO_NOT_AFTER -DONLY=ONE |safe|takes without not_after: still one holder
token-no-spent     |token |-DZ=1 -DRIVAL -DNO_SPENT                |safe   |without `spent`: all three claims hold by the TIME of the answer alone
token-spent-goes   |token |-DZ=1 -DRIVAL -DFORGETS=LIMIT            |safe   |S of a released lock goes when the limit of all takes has passed: all claims hold, and no dropped token is taken again
token-spent-forgot |token |-DZ=1 -DRIVAL -DONLY=NONE -DSEE=FORGOT -DFORGETS=LIMIT |happens|S of a released lock expires
token-spent-short* |token |-DZ=1 -DRIVAL -DFORGETS=1 -DONLY=AGAIN    |fails  |S goes before that: a late take of a dropped token sets K
token-hand         |token |-DZ=1 -DRIVAL -DSIMPLE -DHAND_DELETES   |safe   |somebody deletes K by hand: S keeps it to one holder
token-quiet        |token |-DZ=0 -DRIVAL -DSIMPLE -DFAILOVER -DQUIET |safe |failover loses the last writes, then T of silence: one holder
token-handover     |token |-DZ=1 -DRIVAL -DONLY=NONE -DSEE=HANDOVER    |happens|a released lock goes to the next
token-takeover     |token |-DZ=1 -DRIVAL -DONLY=NONE -DSEE=TAKEOVER    |happens|a crashed holder's lock goes to the next
token-yours        |token |-DZ=1 -DRIVAL -DONLY=NONE -DSEE=YOURS       |happens|a repeated take finds the lock its own, with less than T left
token-refused      |token |-DZ=1 -DRIVAL -DONLY=NONE -DSEE=REFUSED     |happens|not_after refuses a late take
token-spent        |token |-DZ=1 -DRIVAL -DONLY=NONE -DSEE=SPENT       |happens|`spent` refuses a late take
token-not-back     |token |-DZ=1 -DRIVAL -DONLY=NONE -DSEE=NOT_BACK    |happens|a keep with a shorter lifetime leaves the expiry where it is
token-late-keep    |token |-DZ=1 -DRIVAL -DONLY=NONE -DSEE=LATE_KEEP   |happens|a keep out of a buffer extends the lock
token-failed-over  |token |-DZ=0 -DRIVAL -DONLY=NONE -DSEE=FAILED_OVER -DFAILOVER -DQUIET |happens|a replica takes over
token-plain-held   |token |-DZ=1 -DRIVAL -DONLY=NONE -DSEE=PLAIN_HELD -DPLAIN |happens|the plain client does hold
token-failover*    |token |-DZ=1 -DRIVAL -DFAILOVER -DONLY=ONE         |fails  |failover loses a take: two holders (documented unsafe)
token-clock-leap*  |token |-DZ=1 -DRIVAL -DJUMP=2 -DONLY=ONE           |fails  |the server's clock leaps forward: two holders (documented unsafe)
token-full-on-retry*|token|-DZ=1 -DRIVAL -DFULL_ON_RETRY -DONLY=ONE    |fails  |"already yours" counts T from the repeated request
token-from-receipt*|token |-DZ=1 -DRIVAL -DFROM_RECEIPT -DONLY=ONE     |fails  |the deadline counts from the answer
token-no-drift*    |token |-DZ=1 -DRIVAL -DNO_DRIFT -DONLY=ONE         |fails  |a slow deadline clock and no drift subtracted
token-keep-shortens*|token|-DZ=1 -DRIVAL -DKEEP_SHORTENS -DONLY=ONE    |fails  |a late keep with a shorter lifetime moves the expiry back
token-drop-blind*  |token |-DZ=1 -DRIVAL -DDROP_BLIND -DONLY=ONE       |fails  |a drop that doesn't compare frees another's lock
token-keep-blind*  |token |-DZ=1 -DRIVAL -DPLAIN -DKEEP_BLIND -DONLY=ONE |fails|a keep that matches S alone overwrites a plain client's lock
token-hand-no-s*   |token |-DZ=1 -DRIVAL -DHAND_DELETES -DNO_S -DONLY=ONE |fails|K deleted by hand and S not asked
token-no-not-after*|token |-DZ=1 -DRIVAL -DNO_NOT_AFTER -DONLY=FREE    |fails  |a take is executed after its sender was told that it is over
token-late-orphan* |token |-DZ=1 -DRIVAL -DSIMPLE -DLIMIT=1 -DWATCH_ORPHANS -DONLY=ORPHAN -DNO_NOT_AFTER |fails|the same take makes an orphan out of nothing
token-trust-busy*  |token |-DZ=1 -DRIVAL -DTRUST_BUSY                  |fails  |"busy" taken for final while an earlier take may yet be executed
token-trust-spent* |token |-DZ=1 -DRIVAL -DTRUST_SPENT                 |fails  |`spent` remembers one token only: the next drop makes it forget
token-refuse-first*|token |-DZ=1 -DRIVAL -DREFUSE_FIRST                |fails  |not_after checked before "already yours" hides a lock from its owner
token-keep-orphan* |token |-DZ=1 -DRIVAL -DSIMPLE -DLIMIT=1 -DWATCH_ORPHANS -DONLY=ORPHAN -DLATE_KEEPS |fails|keeps without not_after: a dead client's lock lives on
token-keep-creates*|token |-DZ=1 -DRIVAL -DSIMPLE -DLIMIT=1 -DWATCH_ORPHANS -DONLY=ORPHAN -DLATE_KEEPS -DKEEP_CREATES |fails|a keep brings an expired lock back
fence              |fence |                                            |safe   |fences increase although S expires when idle
fence-failover     |fence |-DFAILOVER                                  |safe   |and over a failover that takes longer than the servers' clocks differ
fence-ahead        |fence |-DFAILOVER -DAHEAD=1 -DOUTAGE=4             |safe   |callers' estimates 1 ahead: the failover must take 1 longer
fence-forgotten    |fence |-DONLY=NONE -DSEE=FORGOTTEN                 |happens|S expires
fence-again        |fence |-DONLY=NONE -DSEE=AGAIN -DFAILOVER          |happens|takes go on after the failover
fence-short*       |fence |-DFAILOVER -DOUTAGE=2                       |fails  |a failover no longer than the servers' clocks differ
fence-ahead-short* |fence |-DFAILOVER -DAHEAD=1                        |fails  |a caller's estimate that is ahead of the server
fence-no-clock*    |fence |-DFAILOVER -DNO_CLOCK                       |fails  |previous + 1 alone forgets with S
quorum             |quorum|                                            |safe   |fences of a majority of three increase, whatever is proposed and whatever else draws
quorum-alike       |quorum|-DONLY=NONE -DSEE=ALIKE                     |happens|all votes have the same number
quorum-mixed       |quorum|-DONLY=NONE -DSEE=MIXED                     |happens|a majority gave the same, and a third a larger one
quorum-raised      |quorum|-DONLY=NONE -DSEE=RAISED                    |happens|a number is raised where the vote is held
quorum-anew        |quorum|-DONLY=NONE -DSEE=ANEW                      |happens|a vote that was lost is drawn anew as it is raised
quorum-no-raise*   |quorum|-DNO_RAISE                                  |fails  |of numbers that differ the greatest counts as it is
quorum-any*        |quorum|-DANY                                       |fails  |a number counts that one server gave
quorum-least*      |quorum|-DLEAST                                     |fails  |of numbers that differ the least is what all come to
quorum-kept-blind* |quorum|-DKEPT_BLIND                                |fails  |a vote that was lost and drawn anew counts with the number it was to be raised to
quorum-forget*     |quorum|-DFORGET                                    |fails  |servers restart empty, and no clock makes up for F
fenceincr          |fenceincr|                                     |safe   |numbers by INCR, believed in the window: they increase, at most the window behind the clock
fenceincr-failover |fenceincr|-DFAILOVER                           |safe   |and over failovers A, B, A …, while connections survive; two of them outlast the window
fenceincr-wide     |fenceincr|-DFAILOVER -DWIDE                    |safe   |the same while the anchor says nothing: the window suffices
fenceincr-deleted  |fenceincr|-DFAILOVER -DDELETED                 |safe   |F deleted by hand
fenceincr-back     |fenceincr|-DBACK=3                           |safe   |clocks that were ahead are set right: numbers go on from F
fenceincr-ahead    |fenceincr|-DBACK=3 -DONLY=NONE -DSEE=AHEAD   |happens|a number is drawn while F is ahead of the clock
fenceincr-old      |fenceincr|-DOLD                                |safe   |beside a client that knows no F and draws from S
long-fenceincr-old |fenceincr|-DOLD -DFAILOVER                     |safe   |the same over failovers
long-fenceincr-two |fenceincr|-DN=2 -DFAILOVER                     |safe   |two clients in detail
fenceincr-believed |fenceincr|-DONLY=NONE -DSEE=BELIEVED           |happens|a number drawn by INCR is believed
fenceincr-too-late |fenceincr|-DONLY=NONE -DSEE=TOO_LATE           |happens|INCR's answer comes after the window
fenceincr-too-low  |fenceincr|-DONLY=NONE -DSEE=TOO_LOW -DDELETED  |happens|a number is too low for the anchor
fenceincr-below-s  |fenceincr|-DONLY=NONE -DSEE=NOT_ABOVE_S -DOLD  |happens|a number isn't above S's fence
fenceincr-survived |fenceincr|-DONLY=NONE -DSEE=SURVIVED -DFAILOVER -DOUTAGE=1 |happens|INCR is sent over a connection that survived two failovers
fenceincr-no-window*|fenceincr|-DFAILOVER -DNO_WINDOW -DONLY=FENCE |fails  |a script that was ever sent over this connection will do
fenceincr-from-answer*|fenceincr|-DFAILOVER -DFROM_ANSWER -DONLY=FENCE |fails|the window counts from the script's answer, not from its sending
fenceincr-at-sending*|fenceincr|-DAT_SENDING                       |fails  |the window is looked at only when INCR is sent
fenceincr-any-connection*|fenceincr|-DFAILOVER -DANY_CONNECTION -DONLY=FENCE |fails|a script over another connection opens the window
fenceincr-other-slot*|fenceincr|-DFAILOVER -DOTHER_SLOT -DONLY=FENCE |fails|a script that raised another slot's counter opens it
fenceincr-from-incr*|fenceincr|-DFROM_INCR                         |fails  |a believed INCR opens it anew
fenceincr-no-edge* |fenceincr|-DDELETED -DNO_EDGE                  |fails  |F deleted by hand, and the number not compared with the anchor
fenceincr-no-s*    |fenceincr|-DOLD -DNO_S                         |fails  |the number not compared with S, beside a client that knows no F
fenceincr-no-clock*|fenceincr|-DFAILOVER -DNO_CLOCK                |fails  |scripts draw F + 1 alone
fenceincr-short*   |fenceincr|-DFAILOVER -DOUTAGE=1                |fails  |a failover no longer than the servers' clocks differ
fenceincr-back-failover*|fenceincr|-DBACK=3 -DFAILOVER -DONLY=FENCE |fails|while F is ahead of the clock a failover loses writes, which the clock doesn't make up for
fenceincr-twice*   |fenceincr|-DFAILOVER -DSKEW=0 -DOUTAGE=1       |fails  |two failovers within the window: the first server misses what the second gave
line               |line  |                                        |safe   |join, look, grants, messages late or lost: one holder, nobody counts on more than its lease, what is finished stays so
line-takes         |line  |-DTAKES                                 |safe   |the same where A begins with SET NX PX or a take by script
line-hand          |line  |-DHAND_DELETES -DONLY=ONE               |safe   |somebody deletes K by hand: S keeps it to one holder
line-live          |line  |-DLIVE                                  |safe   |in the order of the places; the lock never lies idle while A waits; a dead host has it once
line-live-takes    |line  |-DLIVE -DTAKES                          |safe   |the same where A begins with a take
line-replicas      |line  |-DFAILOVER -DREPLICAS -DT=2 -DG=1 -DONLY=ONE |safe   |a failover loses the last writes, and who waits for the replica claims first: one holder
line-old-master    |line  |-DFAILOVER -DT=2 -DG=1 -DONLY=ONE       |safe   |a failover loses a grant, and A joins at the new master: the old one's message is nothing
long-line          |line  |-DZ=1 -DT=2 -DG=1 -DORPHANS             |safe   |a late request in a buffer: all of it, and no orphan outlives LIMIT + T
line-repeats       |line  |-DREPEATS                              |safe   |a failover after which A's inbox stays at the old master, which repeats what the new one says: nothing is said there in vain
long-line-takes    |line  |-DZ=1 -DT=2 -DG=1 -DTAKES               |safe   |the same with late takes, their connection ended before the drop
long-line-replicas |line |-DFAILOVER -DREPLICAS -DONLY=ONE        |safe   |failover with T = 3, a lease of 2
line-by-message    |line  |-DONLY=NONE -DSEE=BY_MESSAGE            |happens|A holds by a message
line-by-look       |line  |-DONLY=NONE -DSEE=BY_LOOK               |happens|a look finds the lock free
line-moved         |line  |-DREPEATS -DONLY=NONE -DSEE=MOVED          |happens|after it A hears of a grant from the new master
line-lapsed        |line  |-DLIVE -DONLY=NONE -DSEE=LAPSED         |happens|the other entries of an inbox that didn't claim go out
line-yielded       |line  |-DLIVE -DONLY=NONE -DSEE=YIELDED        |happens|who took without standing in line yields
line-returned      |line  |-DLIVE -DONLY=NONE -DSEE=RETURNED       |happens|who went out returns to its place
line-met           |line  |-DONLY=NONE -DSEE=MET                   |happens|leaving meets a grant
line-doubted       |line  |-DONLY=NONE -DSEE=DOUBTED               |happens|a message arrives while a look is under way
line-spent         |line  |-DZ=1 -DONLY=NONE -DSEE=SPENT           |happens|`spent` refuses a late look
line-refused       |line  |-DZ=1 -DONLY=NONE -DSEE=REFUSED         |happens|not_after refuses a late look
line-grant-blind*  |line  |-DHAND_DELETES -DGRANT_BLIND -DONLY=ONE |fails  |K deleted by hand, and granted although S binds another
line-no-spent*     |line  |-DZ=1 -DNO_SPENT -DONLY=SHUT            |fails  |a look still in flight takes K for nobody, at once after the release
line-no-not-after* |line  |-DZ=1 -DNO_NOT_AFTER -DONLY=FREE        |fails  |a look counts whenever it arrives
line-late-claim*   |line  |-DZ=1 -DLATE_CLAIM -DORPHANS -DONLY=ORPHAN |fails|a look past its not_after prolongs a dead client's lock
line-push-full*    |line  |-DPUSH_FULL -DONLY=ONE                  |fails  |a message is worth the lease from its arrival
line-no-doubt*     |line  |-DZ=1 -DNO_DOUBT -DONLY=FREE            |fails  |a look in flight when the message arrives is taken to be over
line-leave-only*   |line  |-DLEAVE_ONLY -DONLY=FREE                |fails  |leaving doesn't give back a lock that was granted meanwhile
line-no-lapse*     |line  |-DLIVE -DNO_LAPSE                       |fails  |a dead host has the lock as often as it has entries
line-lapse-by-look*|line  |-DLIVE -DLAPSE_BY_LOOK                  |fails  |they go out only when one in line looks, not in a drop or a yield
line-lapse-stays*  |line  |-DLIVE -DLAPSE_STAYS                    |fails  |who lives after all, and looks, goes out by its own look
line-no-yield*     |line  |-DLIVE -DNO_YIELD -DONLY=ORDER          |fails  |who takes without standing in line keeps what it has
line-new-place*    |line  |-DLIVE -DNEW_PLACE -DONLY=ORDER         |fails  |who comes back gets a new place
line-unbound*      |line  |-DZ=1 -DTAKES -DUNBOUND -DONLY=ONE      |fails  |a take by script leaves S to the first keep: a late repetition finds its own token and gives it away
line-no-kill*      |line  |-DZ=1 -DTAKES -DNO_KILL -DONLY=FREE     |fails  |a SET NX PX in a buffer is executed after the drop
line-no-claim*     |line  |-DFAILOVER -DREPLICAS -DNO_CLAIM -DT=2 -DG=1 -DONLY=ONE |fails|a message believed before the replica has the grant
line-said-in-vain* |line  |-DREPEATS -DSAID_IN_VAIN -DONLY=ONE        |fails  |a grant is published, and taken back as nobody hears it: a replica repeats it to A
line-any-server*   |line  |-DFAILOVER -DANY_SERVER -DT=2 -DG=1 -DONLY=ONE |fails|the old master's message believed after a join at the new one
sentinel           |sentinel|                                      |safe   |quiet for T and the window of takes: one holder, however slowly the Sentinels switch and whenever the former master wakes
sentinel-keeps     |sentinel|-DNO_TAKES -DQ=T                      |safe   |who only keeps a lock: quiet for T
sentinel-before    |sentinel|-DASKED_BEFORE                        |safe   |keeps confirmed by a question of the window before their answer: still one holder, at T and the window
sentinel-woken     |sentinel|-DONLY=NONE -DSEE=WOKEN               |happens|the former master answers when all name the other
sentinel-refused   |sentinel|-DONLY=NONE -DSEE=REFUSED             |happens|a keep that was answered isn't confirmed
sentinel-succeeded |sentinel|-DONLY=NONE -DSEE=SUCCEEDED           |happens|another has the lock
sentinel-no-confirm*|sentinel|-DNO_CONFIRM                         |fails  |a keep counts as soon as it is answered
sentinel-late-take*|sentinel|-DLATE_TAKE                           |fails  |a take is sent long after the master was named
sentinel-short*    |sentinel|-DQ=T                                 |fails  |quiet for T alone, and a take of the window
sentinel-before-short*|sentinel|-DASKED_BEFORE -DNO_TAKES -DQ=T    |fails  |quiet for T alone, and keeps confirmed by a question from before
sentinel-any-one*  |sentinel|-DANY_ONE                             |fails  |one Sentinel's word will do
sentinel-goes-back*|sentinel|-DGOES_BACK                           |fails  |a Sentinel names the former master again
java-two           |java  |                                            |safe   |jobs over 2M + L before their stamp: one holder
java-three         |java  |-DNJ=3                                      |safe   |three clients
java-no-lag        |java  |-DM=2 -DL=0 -DT=8                           |safe   |M = 2, no lag: slack 2M
java-no-skew       |java  |-DM=0 -DL=2 -DT=6                           |safe   |equal clocks, L = 2: slack L
java-steps         |java  |-DSTEPS -DT=8 -DSLACK=5                     |safe   |clocks stepping within M while a job runs: slack 4M + L
java-handover      |java  |-DONLY=NONE -DSEE=HANDOVER                  |happens|DEL, and the next SETNX wins
java-takeover      |java  |-DONLY=NONE -DSEE=TAKEOVER                  |happens|a crashed holder's stamp is taken over
java-loser         |java  |-DONLY=NONE -DSEE=LOSER                     |happens|a GETSET loser overwrites the winner's stamp
java-orphan*       |java  |-DONLY=NONE -DSEE=ORPHANED                  |happens|GETSET answers nil: the client throws and its stamp stays
java-skew-steal*   |java  |-DM=1 -DL=0 -DSLACK=0                       |fails  |no slack, skewed clocks: a fast clock steals a slow one's lock
java-race*         |java  |-DM=0 -DL=2 -DSLACK=0                       |fails  |no slack, equal clocks: a racing loser shortens the winner's stamp
java-slack*        |java  |-DSLACK=1                                   |fails  |slack below 2M + L: both together
java-late-del*     |java  |-DM=0 -DL=0 -DT=3 -DLATE_DEL                |fails  |a late holder's DEL frees its successor's lock
java-beyond-m*     |java  |-DOFF=2                                     |fails  |clocks beyond M
java-beyond-l*     |java  |-DLAG=3                                     |fails  |attempts slower than L
java-steps-short*  |java  |-DSTEPS -DT=8                               |fails  |clocks stepping within M, slack 2M + L
plain-one          |plain |-DNP=1                                      |safe   |one tidelock client without scripts beside two Java clients
plain-two          |plain |-DNJ=1                                      |safe   |two beside one
plain-to-the-end   |plain |-DNP=1 -DNJ=1 -DM=2 -DL=0 -DT=8 -DSLACK=0   |safe   |beside one Java client whose job runs up to its stamp
plain-short        |plain |-DNP=1 -DNJ=2 -DT=8 -DTP=5                 |safe   |an own lifetime shorter than T_legacy, one beside two
plain-short-skew   |plain |-DNP=1 -DNJ=1 -DM=2 -DL=0 -DT=8 -DTP=5      |safe   |the same with M = 2
plain-getset       |plain |-DNJ=1 -DONLY=NONE -DSEE=OURS_BY_GETSET     |happens|it takes over by GETSET
plain-handover     |plain |-DNJ=1 -DONLY=NONE -DSEE=HANDOVER           |happens|it releases by DEL and another holds
plain-no-cap*      |plain |-DNP=1 -DNJ=1 -DNO_CAP                      |fails  |the deadline ignores racing losers
plain-bytes*       |plain |-DNJ=0 -DBYTES_ARE_MINE                     |fails  |equal bytes taken for identity
plain-late-del*    |plain |-DNP=1 -DNJ=1 -DLATE_DEL_OURS               |fails  |DEL sent when no time remains for it
plain-own-lag*     |plain |-DNJ=1 -DL=0 -DT=5 -DLAG_OURS=2             |fails  |our own GETSET executed later than L after its clock reading
plain-short-loser* |plain |-DNP=1 -DNJ=2 -DT=8 -DTP=5 -DSHORT_LOSER   |fails  |a loser's GETSET writes an own lifetime shorter than T_legacy
plain-one-m*       |plain |-DNP=1 -DNJ=1 -DM=2 -DL=0 -DT=8 -DTP=5 -DONE_M |fails|a short lifetime by our own clock spares M only once
plain-no-wait*     |plain |-DNP=1 -DNJ=1 -DM=2 -DL=0 -DT=8 -DSLACK=0 -DWAIT=0 |fails|taken as soon as the stamp has run out
bridge-buffer      |bridge|-DNB=1 -DNJ=1 -DZ=1                         |safe   |one client, late requests, one Java client: one holder
bridge-two         |bridge|-DNB=2 -DNJ=1 -DLIMIT=1                     |safe   |two clients beside one Java client
bridge-javas       |bridge|-DNB=1 -DNJ=2 -DLIMIT=1                     |safe   |one client beside two Java clients
bridge-skew        |bridge|-DNB=1 -DNJ=1 -DM=2 -DT=8                   |safe   |M = 2, L = 1
bridge-longer-java |bridge|-DNB=1 -DNJ=1 -DTJ=8 -DLIMIT=1              |safe   |Java lifetimes longer than T_legacy
bridge-longer-own  |bridge|-DNB=1 -DNJ=1 -DTB=7 -DLIMIT=1              |safe   |our own lifetime longer than T_legacy, T + 3M + 2L at most 2 T_legacy
bridge-until       |bridge|-DNB=1 -DNJ=1 -DTB=9 -DUNTIL                |safe   |any longer, if equal bytes count as ours only until S.until
bridge-until-short |bridge|-DNB=1 -DNJ=1 -DM=2 -DL=0 -DT=5 -DUNTIL -DLIMIT=1 |safe|T below 3M + 2L, by the same rule
bridge-until-javas |bridge|-DNB=1 -DNJ=2 -DM=1 -DL=0 -DT=5 -DTB=8 -DUNTIL -DLIMIT=1 |safe|the same rule beside two Java clients
bridge-to-the-end  |bridge|-DNB=1 -DNJ=1 -DM=3 -DL=0 -DT=10 -DSLACK=0 -DLIMIT=1 |safe|a Java job that runs up to its stamp
bridge-late-del-own|bridge|-DNB=2 -DNJ=1 -DL=0 -DT=4 -DLIMIT=1 -DLATE_DEL -DONLY=TIDELOCK |safe|late legacy DELs: still never two tidelock clients
bridge-thief-known |bridge|-DNB=1 -DNJ=1 -DOFF=3 -DSLOWEST=3 -DLIMIT=1 -DONLY=STOLEN_BACK |safe|a host that is always beyond M: its stamp is never taken for a loser's
bridge-handover    |bridge|-DNB=2 -DNJ=1 -DONLY=NONE -DSEE=HANDOVER    |happens|a released lock goes to the next
bridge-crashed     |bridge|-DNB=1 -DNJ=1 -DONLY=NONE -DSEE=CRASHED_JAVA|happens|a crashed Java holder's lock is taken over
bridge-java-takes  |bridge|-DNB=1 -DNJ=1 -DONLY=NONE -DSEE=TAKEOVER    |happens|a Java client takes over a crashed holder's lock
bridge-loser       |bridge|-DNB=1 -DNJ=1 -DONLY=NONE -DSEE=LOSER       |happens|a Java loser overwrites a holder's stamp
bridge-reclaim*    |bridge|-DNB=1 -DNJ=1 -DONLY=NONE -DSEE=RECLAIM     |happens|the holder recognises it and takes its lock back
bridge-lifted      |bridge|-DNB=1 -DNJ=1 -DONLY=NONE -DSEE=LONGER      |happens|a keep later than L lifts the cap
bridge-s-binds     |bridge|-DNB=2 -DNJ=1 -DONLY=NONE -DSEE=BUSY_BY_S -DLATE_DEL |happens|S keeps a tidelock client out although K is gone
bridge-robbed*     |bridge|-DNB=1 -DNJ=1 -DOFF=3 -DSLOWEST=3 -DLIMIT=1 -DONLY=NONE -DSEE=ROBBED |happens|beyond M a thief takes the lock, and the holder finds out
bridge-beyond-m*   |bridge|-DNB=1 -DNJ=1 -DOFF=3 -DLIMIT=1 -DONLY=ONE  |fails  |a Java clock beyond M
bridge-beyond-l*   |bridge|-DNB=1 -DNJ=1 -DLAG=2 -DLIMIT=1 -DONLY=ONE  |fails  |a Java attempt slower than L
bridge-late-del*   |bridge|-DNB=1 -DNJ=1 -DLATE_DEL -DLIMIT=1 -DONLY=ONE |fails|a Java DEL later than assumed
bridge-late-del-no-s*|bridge|-DNB=2 -DNJ=1 -DLATE_DEL -DNO_S -DLIMIT=1 -DONLY=TIDELOCK |fails|the same without S: two tidelock clients
bridge-shorter-java*|bridge|-DNB=1 -DNJ=1 -DTJ=4 -DLIMIT=1             |fails  |a Java lifetime shorter than T_legacy
bridge-equal-bytes*|bridge|-DNB=1 -DNJ=1 -DM=2 -DL=0 -DT=5 -DLIMIT=1   |fails  |T between 2M + L and 3M + 2L: a Java stamp of equal bytes passes for ours
bridge-equal-long* |bridge|-DNB=1 -DNJ=1 -DTB=9 -DLIMIT=1              |fails  |our own lifetime so long that a later Java stamp has equal bytes
bridge-no-cap*     |bridge|-DNB=1 -DNJ=1 -DNO_CAP -DLIMIT=1            |fails  |the deadline ignores racing losers
bridge-cap-early*  |bridge|-DNB=1 -DNJ=1 -DCAP_EARLY -DLIMIT=1         |fails  |the cap lifted by a keep executed just L after the take
bridge-one-way*    |bridge|-DNB=1 -DNJ=1 -DM=2 -DL=0 -DT=7 -DONE_WAY -DLIMIT=1 |fails|the deadline spares no M
bridge-no-wait*    |bridge|-DNB=1 -DNJ=1 -DM=3 -DL=0 -DT=10 -DSLACK=0 -DWAIT=0 -DLIMIT=1 |fails|a stamp taken as soon as it has run out
bridge-full-on-retry*|bridge|-DNB=1 -DNJ=1 -DFULL_ON_RETRY             |fails  |"already yours" counts T, not what K holds
bridge-keep-shortens*|bridge|-DNB=1 -DNJ=1 -DZ=1 -DL=0 -DLIMIT=3 -DKEEP_SHORTENS |fails|a late keep moves the stamp back
bridge-all-ours*   |bridge|-DNB=1 -DNJ=1 -DOFF=3 -DSLOWEST=3 -DLIMIT=1 -DALL_OURS -DONLY=STOLEN_BACK |fails|every strange stamp taken for a loser's: the thief is robbed in turn
bridge-thief-gone* |bridge|-DNB=1 -DNJ=1 -DOFF=2 -DLIMIT=1 -DONLY=STOLEN_BACK |fails|beyond M: the thief has come and gone, and the next stamp looks like a loser's
bridge-no-min      |bridge|-DNB=1 -DNJ=1 -DNO_MIN -DLIMIT=1            |safe   |min(deadline, E' - M) left out: the cap alone suffices
bridge-no-s        |bridge|-DNB=2 -DNJ=1 -DL=0 -DT=4 -DLIMIT=1 -DNO_S  |safe   |S not binding: no harm while every DEL is in time
bridge-s-early     |bridge|-DNB=2 -DNJ=1 -DL=0 -DT=4 -DLIMIT=1 -DLATE_DEL -DS_ENDS_EARLY -DONLY=TIDELOCK |safe|S binding until S.value - M only
phase              |phase |                                        |safe   |at most two adjacent phases act, whatever is lost, late, paused or crashed
phase-longer       |phase |-DLEASE=3                               |safe   |the same with a lease of 3 ticks
phase-two          |phase |-DN=2 -DTOOLS=1 -DNO_FRESH            |safe   |two clients in full detail, one operator
phase-begin        |phase |-DUNBEGUN -DFALLBACK=3                  |safe   |a register begins at 0 or 1 among clients that fell back under a longer lease
phase-failover     |phase |-DFAILOVER -DLEASE=1                    |safe   |a failover loses the last step: steps only from a replicated epoch, the wait anew
phase-failover-one |phase |-DFAILOVER -DTOOLS=1                    |safe   |the same with one operator and a lease of 2 ticks
phase-line         |phase |-DLINE                                  |safe   |entries of phase 3 stay in line while it goes back, and who is called takes by himself
phase-line-called  |phase |-DLINE -DONLY=NONE -DSEE=CALLED         |happens|the entry of one whose lease is over has its turn
phase-line-given*  |phase |-DLINE -DGIVEN                          |fails  |whoever releases the lock sets it for the next in line
phase-last         |phase |-DONLY=NONE -DSEE=LAST                  |happens|phase 3 is reached
phase-back         |phase |-DONLY=NONE -DSEE=WENT_BACK             |happens|a step back
phase-both         |phase |-DONLY=NONE -DSEE=BOTH                  |happens|two adjacent phases act at once
phase-refused      |phase |-DONLY=NONE -DSEE=REFUSED               |happens|not_after refuses a take past the end of its lease
phase-lost-race    |phase |-DONLY=NONE -DSEE=LOST_RACE             |happens|of two operators' steps one is refused
phase-held-back    |phase |-DRECORDS -DONLY=NONE -DSEE=HELD_BACK   |happens|a record holds a step back
phase-voided       |phase |-DRECORDS -DONLY=NONE -DSEE=VOIDED      |happens|a void record holds nothing back
phase-begun        |phase |-DUNBEGUN -DONLY=NONE -DSEE=BEGUN       |happens|the register begins
phase-failed-over  |phase |-DFAILOVER -DONLY=NONE -DSEE=FAILED_OVER|happens|a replica takes over
phase-no-lease*    |phase |-DNO_LEASE                              |fails  |a client goes on by the phase that it read last
phase-from-reply*  |phase |-DFROM_REPLY                            |fails  |the lease counts from the answer instead of the request
phase-no-not-after*|phase |-DNO_NOT_AFTER                          |fails  |the server executes a take past the end of its lease
phase-no-wait*     |phase |-DNO_WAIT -DRECORDS                     |fails  |records alone: a client that is recorded acts by an older answer
phase-no-compare*  |phase |-DNO_COMPARE                            |fails  |two operators race and the register skips a phase
phase-wait-from-request*|phase|-DWAIT_FROM_REQUEST                 |fails  |the tool's wait counts from its request instead of the answer
phase-client-no-drift*|phase|-DCLIENT_NO_DRIFT                     |fails  |a slow deadline clock and no drift taken from the lease
phase-tool-no-drift*|phase|-DTOOL_NO_DRIFT                         |fails  |a fast deadline clock and no drift added to the wait
phase-first-no-wait*|phase|-DUNBEGUN -DFALLBACK=3 -DFIRST_NO_WAIT -DRECORDS |fails|leases from before the register are longer than the register's
phase-begin-anywhere*|phase|-DUNBEGUN -DBEGIN_ANYWHERE -DRECORDS   |fails  |a register begins at 2 or 3
phase-vanished*    |phase |-DVANISH                                |fails  |the register is deleted by hand: a fresh client falls back
phase-no-anew*     |phase |-DFAILOVER -DNO_ANEW                    |fails  |a failover undoes a step unseen, and the wait goes on
phase-no-wait-first*|phase|-DFAILOVER -DNO_WAIT_FIRST              |fails  |a step from an epoch that no replica has: a failover undoes two
phaseslot          |phaseslot|                                     |safe   |a register in each slot: no token is written or left while Java may run
phaseslot-failovers|phaseslot|-DFAILOVERS=2                        |safe   |the same with two failovers in each slot
long-phaseslot     |phaseslot|-DRUNS=5                             |safe   |the same with four runs of the tool
phaseslot-up-again |phaseslot|-DONLY=NONE -DSEE=UP_AGAIN            |happens|another step up
phaseslot-word     |phaseslot|-DONLY=NONE -DSEE=WORD                |happens|Java may start
phaseslot-differs  |phaseslot|-DONLY=NONE -DSEE=DIFFERS             |happens|a take finds another register than it expects
phaseslot-fell-back|phaseslot|-DONLY=NONE -DSEE=FELL_BACK           |happens|a failover undoes a change of the register
phaseslot-died     |phaseslot|-DONLY=NONE -DSEE=DIED                |happens|the tool dies midway
phaseslot-no-condition*|phaseslot|-DNO_CONDITION -DONLY=TAKEN       |fails  |a take is executed whatever the register says by then
phaseslot-no-wait* |phaseslot|-DNO_WAIT -DONLY=TAKEN                |fails  |a failover undoes a register after Java has started
phaseslot-no-beyond*|phaseslot|-DNO_BEYOND                         |fails  |a slot that looks untouched is skipped: a dead tool's write comes late
phaseslot-reused*  |phaseslot|-DREUSED -DRUNS=5                     |fails  |an epoch is given again after a failover: a dead tool's write fits
phaseslot-no-scan* |phaseslot|-DNO_SCAN -DFAILOVERS=0               |fails  |Java starts while a token is held
phaseslot-no-last-wait*|phaseslot|-DNO_LAST_WAIT -DONLY=LEFT        |fails  |a failover brings a released token back
phaseslot-early*   |phaseslot|-DEARLY                               |fails  |the tool writes before it knows that Java has stopped
phaseslot-unconfirmed*|phaseslot|-DUNCONFIRMED                      |fails  |the reply of a woken master counts
pair-two           |pair |-DNB=2 -DNJ=0                            |safe   |two clients of phases 1, 2 and 3, forth and back
pair-java          |pair |-DNB=1 -DNJ=1 -DLIMIT=2                  |safe   |one client from phase 1 to 2 and back, a Java client before and after
pair-lag           |pair |-DNB=1 -DNJ=1 -DM=0 -DL=3                |safe   |the same with slow Java attempts
pair-to-the-end    |pair |-DNB=1 -DNJ=1 -DM=3 -DL=0 -DT=10 -DSLACK=0 |safe |and with Java jobs that run up to their stamp, M = 3
pair-no-scan       |pair |-DNB=1 -DNJ=1 -DNO_SCAN                  |safe   |Java begins beside tokens that are left: it throws, but one holder
pair-no-s          |pair |-DNB=2 -DNJ=0 -DL=0 -DT=4 -DNO_S         |safe   |S not binding: exact bytes suffice
pair-blind         |pair |-DNB=2 -DNJ=0 -DL=0 -DT=4 -DBLIND        |safe   |a free stamp taken whatever K holds: S suffices
pair-turned        |pair |-DNB=1 -DNJ=0 -DONLY=NONE -DSEE=TURNED   |happens|a keep turns a stamp into a token
pair-freed         |pair |-DNB=1 -DNJ=0 -DONLY=NONE -DSEE=FREED    |happens|a token takes the place of a stamp that ran out
pair-left          |pair |-DNB=2 -DNJ=0 -DONLY=NONE -DSEE=LEFT     |happens|phase 1 finds a token that is left
pair-handover      |pair |-DNB=2 -DNJ=0 -DONLY=NONE -DSEE=HANDOVER |happens|a released lock goes to the next
pair-reclaim       |pair |-DNB=1 -DNJ=1 -DONLY=NONE -DSEE=RECLAIM  |happens|a holder recognises a loser's stamp and takes its lock back
pair-thrown        |pair |-DNB=1 -DNJ=1 -DNO_SCAN -DONLY=NONE -DSEE=THROWN |happens|Java reads a token and throws
pair-java-in-drain*|pair |-DNB=1 -DNJ=1 -DJAVA_IN_MIXED            |fails  |Java beside phase 2: its loser overwrites a token, whose holder allows for none
pair-late-turn*    |pair |-DNB=1 -DNJ=1 -DM=0 -DL=3 -DLATE_TURN    |fails  |a keep turns a stamp into a token after the end of its lease
pair-steals*       |pair |-DNB=2 -DNJ=0 -DL=0 -DT=4 -DSTEALS -DNO_S|fails  |a token taken for a stamp that ran out, and S not asked
pair-blind-no-s*   |pair |-DNB=2 -DNJ=0 -DL=0 -DT=4 -DBLIND -DNO_S |fails  |a free stamp taken whatever K holds, and S not asked
pair-no-wait*      |pair |-DNB=1 -DNJ=1 -DM=3 -DL=0 -DT=10 -DSLACK=0 -DWAIT=0 |fails|a stamp taken as soon as it has run out
pairn-script       |pairn|-DNB=1 -DNJ=1 -DM=1 -DL=0 -DT=4 -DLIMIT=2 |safe  |tokens taken by script while the phase goes back and Java begins: one holder, and no token then
pairn-past-lease   |pairn|-DNB=1 -DNJ=1 -DM=1 -DL=0 -DT=4 -DONLY=NONE -DSEE=PAST_LEASE |happens|a request is refused past the end of its lease
pairn-native*      |pairn|-DNB=1 -DNJ=1 -DM=1 -DL=0 -DT=4 -DNATIVE -DONLY=ONE |fails|tokens taken by SET NX PX: it arrives when Java has begun, whose loser overwrites the token
pairn-native-checked*|pairn|-DNB=1 -DNJ=1 -DM=1 -DL=0 -DT=4 -DNATIVE -DCHECKED -DONLY=ONE |fails|answers that come after the end of the lease not believed: the repeated take finds the token its own
pairn-native-left* |pairn|-DNB=1 -DNJ=1 -DM=1 -DL=0 -DT=4 -DNATIVE -DONLY=CLEAN |fails|and a token that nobody holds, for Java to throw on
reign-promotions   |reign|-DPROMOTIONS                                |safe   |quiet for T, any number of promotions, there and back: one holder
reign-restarts     |reign|-DRESTARTS                                  |safe   |and of restarts, with old data or none
reign              |reign|-DT=2                                       |safe   |and of both
reign-unfollowed   |reign|-DUNFOLLOWED -DPROMOTIONS                   |safe   |and of promotions of a former master that was no replica since, by the epoch
reign-withheld     |reign|-DONLY=NONE -DSEE=WITHHELD -DPROMOTIONS     |happens|a lock is withheld
reign-back         |reign|-DONLY=NONE -DSEE=BACK -DPROMOTIONS         |happens|a server is master again, with what it noted itself
reign-succeeded    |reign|-DONLY=NONE -DSEE=SUCCEEDED -DPROMOTIONS    |happens|another has the lock
reign-found        |reign|-DONLY=NONE -DSEE=FOUND -DPROMOTIONS        |happens|a repeated take finds itself the holder
reign-short*       |reign|-DQ=T-1 -DPROMOTIONS                        |fails  |quiet for less than T
reign-run-only*    |reign|-DRUN_ONLY -DPROMOTIONS                     |fails  |the run alone: a server is master again, and knows itself
reign-no-epoch*    |reign|-DUNFOLLOWED -DNO_EPOCH -DPROMOTIONS        |fails  |no epoch: a former master that was no replica since has its run and its history
reign-history-only*|reign|-DHISTORY_ONLY -DRESTARTS                   |fails  |the history alone: a restart forgets what was not saved
reign-uptime*      |reign|-DUPTIME -DPROMOTIONS                       |fails  |uptime alone: a promoted replica has long been up
reign-at-login*    |reign|-DAT_LOGIN -DPROMOTIONS                     |fails  |asked when the connection is made, which outlasts two promotions
reign-own-counts*  |reign|-DOWN_COUNTS -DPROMOTIONS                   |fails  |who finds his own token at K believes it, though another was given the lock since
ROWS
}

build_pan() { gcc "$1" -w -DSAFETY -DBFS -DMEMLIM=3500 -o pan pan.c >>spin.log 2>&1; }

# check NAME MODEL DEFINES EXPECTED SAYS: one row, in a directory of its own.
check() {
    local name=${1%\*} keep=${1##*[!*]} model=$2 defines=$3 expected=$4 says=$5
    local dir=$work/$name began=$EPOCHREALTIME found=broken states=- depth=- note= ended
    mkdir -p "$dir"
    cp "$here"/*.pml "$dir"
    cd "$dir"
    # shellcheck disable=SC2086
    if spin $defines -a "$model.pml" >spin.log 2>&1 && build_pan -O0; then
        ended=0
        timeout 1 ./pan -w22 >pan.log 2>&1 || ended=$?
        if ((ended == 124)); then # a long search: now it is worth optimizing
            rm -f "$model.pml.trail"
            build_pan -O1
            timeout 600 ./pan -w22 >pan.log 2>&1 || true
        fi
        states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
        depth=$(sed -n 's/.*depth reached \([0-9]*\).*/\1/p' pan.log)
        if [[ -f $model.pml.trail ]]; then
            spin -t -T $defines -DSTEP=1 "$model.pml" 2>&1 | awk '
                match($0, /^\[-?[0-9]+\]/) {
                    printf "[%3d]%s\n", substr($0, 2, RLENGTH - 2), substr($0, RLENGTH + 1) }' >story
            if grep -q '\] !! ' story; then found=fails
            elif grep -q '\] \*\* ' story; then found=happens; fi
        elif grep -q 'errors: 0' pan.log && ! grep -qiE 'not completed|memlim|out of memory|too small' pan.log; then
            found=safe
        fi
    fi
    if [[ -n $keep && -f story ]]; then
        { printf '%s: %s\n%s.pml %s\n\n' "$name" "$says" "$model" "$defines"; cat story; } >kept
        if ((update)); then cp kept "$here/traces/$name.txt"
        elif ! cmp -s kept "$here/traces/$name.txt"; then note='  (traces/ tells another story: run.sh --update)'; fi
    fi
    awk -v n="$name" -v e="$expected" -v f="$found" -v s="${states:--}" -v d="${depth:--}" -v y="$says" -v note="$note" \
        -v t="$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')" 'BEGIN {
            printf "%-6s %-22s %-7s %9s states %4s deep %6.1f s  %s%s%s\n", e == f ? "ok" : "WRONG", n, f, s, d, t, y,
                e == f ? "" : " (expected: " e ")", note }' >result
    [[ $found != broken ]] || tail -n 5 spin.log >>result
    rm -f pan pan.?  # keep the logs and stories, not the programs
    cat result
}

jobs=2 update=0 pattern=
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM
while (($#)); do
    case $1 in
        -j) jobs=$2; shift ;;
        -j*) jobs=${1#-j} ;;
        --update) update=1 ;;
        *) pattern=$1 ;;
    esac
    shift
done
for tool in spin gcc; do
    command -v $tool >/dev/null || { echo "run.sh: $tool is missing; on Debian: apt-get install spin gcc" >&2; exit 1; }
done

work=${BUILD:-$(mktemp -d)}/model
[[ -n ${BUILD:-} ]] || trap 'rm -rf "${work%/model}"' EXIT
rm -rf "$work"
mkdir -p "$work" "$here/traces"
work=$(cd "$work" && pwd)

rows=0
while IFS='|' read -r name model defines expected says; do
    read -r name <<<"$name"
    read -r model <<<"$model"
    read -r defines <<<"$defines"
    read -r expected <<<"$expected"
    [[ -z $pattern || ${name%\*} =~ $pattern ]] || continue
    while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
    (check "$name" "$model" "$defines" "$expected" "$says") &
    rows=$((rows + 1))
done < <(table)
wait
passed=$(cat "$work"/*/result 2>/dev/null | grep -c '^ok' || true)
echo "$passed passed, $((rows - passed)) failed"
((passed == rows && rows > 0))
