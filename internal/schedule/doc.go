// Package schedule keeps which tasks a group has for later, and sees to it that each is started
// when it is due (D-34). It keeps them in one SQLite file, or in the PostgreSQL that nodes share
//
//
// It promises that a tick is started once, whatever the clock does and however many processes serve
// one file. A claim is one transaction, and so is the step from claim to start. What a process had
// claimed when it died is taken over by another. What it had started is started a second and last
// time where the schedule's policy is to run what was missed, and marked as interrupted elsewhere.
// A schedule's ticks do not run beside each other: one that is due meanwhile was missed. A file
// that is damaged, newer or not ours is refused and not repaired. A node whose lease is over claims
// nothing and ends nothing.
//
// It starts nothing itself, and does not decide what a task may do.
package schedule
