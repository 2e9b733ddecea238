package agent

import (
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/task"
)

// Skills teach a brain the tools that its group may use, and how plugins want theirs to be used (D-31).
func Skills(usable []nacre.Capability, plugins []pluginhost.Skill) []brain.Skill {
	var core []nacre.Capability
	schedules := false
	for _, c := range usable {
		if c.Intrinsic {
			core = append(core, c)
		}
		schedules = schedules || strings.HasPrefix(string(c.ID), schedule.Plugin+".")
	}
	skills := []brain.Skill{
		{Name: "nacre", Markdown: pluginhost.GenerateSkill("nacre", core)}, {Name: memory.Plugin, Markdown: memory.Skill()},
	}
	if schedules {
		skills = append(skills, brain.Skill{Name: schedule.Plugin, Markdown: schedule.Skill()})
	}
	for _, skill := range plugins {
		var text strings.Builder
		for _, file := range skill.Files {
			text.WriteString(file.Text + "\n")
		}
		skills = append(skills, brain.Skill{Name: skill.Name, Markdown: text.String()})
	}
	return skills
}

// ForTask is an open session as a run in it knows it.
func ForTask(s *basis.Basis) task.Session {
	return task.Session{Opened: s.Session, Recorder: s.Recorder, Interrupted: s.Interruption.Begun(), Heed: s.Refusals.Heed}
}
