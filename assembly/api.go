package assembly

import (
	"context"
	"io/fs"
	"net/netip"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/account"
	"github.com/nacre-dev/nacre/internal/asking"
	"github.com/nacre-dev/nacre/internal/cockpit"
	"github.com/nacre-dev/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/converse"
	"github.com/nacre-dev/nacre/internal/endpoints"
	"github.com/nacre-dev/nacre/internal/erasure"
	"github.com/nacre-dev/nacre/internal/eventlog"
	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/explain"
	"github.com/nacre-dev/nacre/internal/gitdir"
	"github.com/nacre-dev/nacre/internal/graduation"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/learn"
	"github.com/nacre-dev/nacre/internal/learned"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/leftover"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/order"
	"github.com/nacre-dev/nacre/internal/overview"
	"github.com/nacre-dev/nacre/internal/plantings"
	"github.com/nacre-dev/nacre/internal/pluginadmin"
	"github.com/nacre-dev/nacre/internal/prove"
	"github.com/nacre-dev/nacre/internal/reach"
	"github.com/nacre-dev/nacre/internal/review"
	"github.com/nacre-dev/nacre/internal/scheduling"
	"github.com/nacre-dev/nacre/internal/serve"
	"github.com/nacre-dev/nacre/internal/survey"
	"github.com/nacre-dev/nacre/internal/upstream"
	"github.com/nacre-dev/nacre/internal/watch"
	"github.com/nacre-dev/nacre/internal/work"
)

// Config is the operator's config.toml; its zero value is the safe default.
type Config = config.Config

type (
	// AccessConfig is what an operator widens or narrows of a plugin's reach.
	AccessConfig = config.Access
	// ValueConfig is where a value is read from.
	ValueConfig = lease.Value
	// SandboxConfig is [sandbox].
	SandboxConfig = config.Sandbox
	// BrainConfig is [brain].
	BrainConfig = config.Brain
	// ACPConfig is an agent of the Agent Client Protocol.
	ACPConfig = config.ACP
	// GroupConfig is a table of [groups].
	GroupConfig = config.Group
	// ToolPin is a table of [tools].
	ToolPin = config.ToolPin
	// EgressConfig is [egress].
	EgressConfig = config.Egress
	// ModelConfig is [model].
	ModelConfig = config.Model
	// RouteConfig is a table of [routes].
	RouteConfig = config.Route
	// EventsConfig is [events].
	EventsConfig = config.Events
	// PublisherConfig is a table of [events.publishers].
	PublisherConfig = config.Publisher
	// CredentialConfig is a table of [credentials].
	CredentialConfig = config.Credential
	// LimitsConfig is [limits].
	LimitsConfig = config.Limits
	// ServeConfig is [serve].
	ServeConfig = config.Serve
	// UpstreamConfig is a table of [model.upstreams].
	UpstreamConfig = config.Upstream
	// WildcardConfig is a wildcard that the operator confirms.
	WildcardConfig = config.Wildcard
)

// Where model calls go unless the config says otherwise, in Anthropic's formats and
// in OpenAI's.
const (
	DefaultModelURL  = config.DefaultModelURL
	DefaultOpenAIURL = config.DefaultOpenAIURL
)

// DefaultGroup is whose sessions the command line opens unless told otherwise.
const DefaultGroup = installation.DefaultGroup

type (
	// Options are what an installation is opened with. All are required.
	Options = installation.Options
	// NotReady says that something which is needed is missing, and what to do (exit 3).
	NotReady = installation.NotReady
	// ConfigError says that the operator's config or a request cannot be acted on (exit 2).
	ConfigError = config.Error
	// DayBudget is what is left today of one budget, in micro-dollars (M-04).
	DayBudget = upstream.DayBudget
	// Planted is what a session left in its project that programs of the host run, obey
	// or trust (M-13).
	Planted = plantings.Found
	// PlantedGroup is what was planted in one folder, and matters at one time.
	PlantedGroup = plantings.Group
	// Killed is a session whose process was killed before it could say what it left.
	Killed = operator.Killed
	// Revoked is what was taken back of grants.
	Revoked = operator.Revoked
	// GroupMemory is a group's memory that is open.
	GroupMemory = memory.Store
	// MemorySettings are what [plugins.memory] says.
	MemorySettings = installation.MemorySettings
	// MemoryEntry is one thing that is remembered.
	MemoryEntry = review.Entry
	// MemoryMark stands for an entry of memory in the operator's records.
	MemoryMark = operator.MemoryMark
)

type (
	// Leftover is work that did not land, as its agent's files hold it.
	Leftover = leftover.Work
	// Taking is what a person does with such work.
	Taking = leftover.Taking
	// TakenLeftover is what became of it.
	TakenLeftover = leftover.Taken
	// Signing is what a person wants signed of a session's commits.
	Signing = leftover.Signing
	// SignOffer is what would be signed.
	SignOffer = leftover.Offered
	// SignedCommits is what became of it.
	SignedCommits = leftover.Signed
	// Held is what becomes of files that programs of the host obey (M-67).
	Held = leftover.Held
	// ListedSession is a session in a list, with the room that it takes.
	ListedSession = leftover.Listed
	// PruneRule says which sessions are old.
	PruneRule = leftover.Rule
	// Pruned is what became of old sessions.
	Pruned = leftover.Pruned
	// Proposal is what sessions were refused, as a person approves it (U-40).
	Proposal = learn.Proposal
	// ProofRow is what became of one thing that was tried against this machine.
	ProofRow = prove.Row
	// ProposalLine is one thing in it.
	ProposalLine = learn.Line
	// LearnChoice is what a person approves of a proposal.
	LearnChoice = learn.Choice
	// Learned is what a person approved.
	Learned = learned.Approval
	// PowerStanding is what runs may be let reach under a name, and on what evidence it stands (M-51).
	PowerStanding = graduation.Standed
	// SurveyFound is what a machine and a project bring along.
	SurveyFound = survey.Found
	// Page is what is known of a session's latest work.
	Page = overview.Page
	// Account accounts for a piece of work in one file.
	Account = account.Account
	// PageCount is something on it that happened so many times.
	PageCount = overview.Count
	// EventLog is what a session keeps of what it tells the person before it.
	EventLog = eventlog.Log
	// LoggedEvent is one entry of it.
	LoggedEvent = eventlog.Event
)

// ParseHeld reads what becomes of files that programs of the host obey: "take",
// "leave-out", or "" for a person who has not said.
func ParseHeld(text string) (Held, error) { return leftover.ParseHeld(text) }

// LearnTime is how long what was learned stands unless a person says otherwise.
const LearnTime = learn.DefaultTime

// ParseAge reads an age: days, such as "30d", or hours and what is shorter, such as "12h".
func ParseAge(text string) (time.Duration, error) { return config.ParseAge(text) }

// StepLook names steps that tell of what was planted, and are not to be cut.
const StepLook = operator.StepLook

// StepPort names the notice of a port that began to listen inside (U-06).
const StepPort = command.StepPort

// StepGit names the notice of what git cannot do inside (U-04).
const StepGit = command.StepGit

// ErrStopped is why a session that was stopped has ended.
var ErrStopped = operator.ErrStopped

// LoadConfig reads config.toml in dir. A missing file is the zero Config; an
// unknown key is an error.
func LoadConfig(dir string) (Config, error) { return config.Load(dir) }

type (
	// Audit is what an auditor decided of a session's work.
	Audit = work.Audit
	// Saying is what a person typed at their terminal for an agent.
	Saying = converse.Saying
	// Said is what came of it.
	Said = converse.Said
	// Contained is why a session was ended: it touched a tripwire (M-58).
	Contained = watch.Contained
	// Finding is what doctor found of one part. Each part was tried, not looked up.
	Finding = installation.Finding
	// Exec is a command to run sealed (M-06).
	Exec = command.Exec
	// SessionInfo says what a session is, for whoever shows it.
	SessionInfo = reach.Info
	// Landing says what becomes of the commits that a command makes in its project.
	Landing = gitdir.Landing
	// Offer is what would land on the user's branch.
	Offer = gitdir.Offer
	// Taken is what became of the agent's git directory.
	Taken = gitdir.Taken
	// Branch is one branch with new commits.
	Branch = gitdir.Branch
	// Streams are what a command reads and prints to.
	Streams = command.Streams
	// ExecResult is what became of a command.
	ExecResult = command.ExecResult
	// Explanation is what a run would be able to do (M-10). Nothing was started to
	// find it out.
	Explanation = explain.Explanation
	// ExplainedTool is what would become of a call, of a session that has read
	// nothing untrusted yet.
	ExplainedTool = explain.Tool
	// Verification asks what a work tree is worth that no run of nacre made (S-07).
	Verification = work.Verification
	// Verdict is what the last pass said that was due.
	Verdict = work.Verdict
	// AtomFailure is one atom that did not hold (S-14).
	AtomFailure = work.AtomFailure
	// MemoryRemain is a place that an erasure does not reach and that is there (M-57).
	MemoryRemain = erasure.MemoryRemain
	// MemoryTraces are what is kept of sessions beside their memories, as far as it may
	// hold the words that are to be forgotten (M-57), and can go.
	MemoryTraces = erasure.MemoryTraces
	// MemoryRow is a row of the ledger.
	MemoryRow = erasure.MemoryRow
	// ConversationTrace is what of a conversation goes.
	ConversationTrace = erasure.ConversationTrace
	// PluginStatus is what a person sees of a plugin. Nothing was started for it.
	PluginStatus = pluginadmin.PluginStatus
	// PluginAccess is what a plugin reaches beyond its own folder.
	PluginAccess = pluginadmin.PluginAccess
	// PluginPlaces are where plugins and what was agreed to about them lie.
	PluginPlaces = pluginadmin.PluginPlaces
	// PluginTrial is a conformance run of a plugin that need not be installed (D-22).
	PluginTrial = pluginadmin.PluginTrial
	// PluginReport is what a conformance run found.
	PluginReport = pluginadmin.PluginReport
	// PluginCheck is one thing that was looked at.
	PluginCheck = pluginadmin.PluginCheck
	// PluginListener hands the TCP connections of one address to one plugin.
	PluginListener = endpoints.PluginListener
	// PluginReload is what became of a plugin in one session.
	PluginReload = hosting.Reloaded
	// PluginCredential is a credential that a plugin wants (D-29).
	PluginCredential = pluginadmin.PluginCredential
	// CredentialWant is a credential that a plugin in use has to be given.
	CredentialWant = pluginadmin.CredentialWant
	// Run is a task for an agent (M-01).
	Run = work.Run
	// Telling is who hears what happens in a run.
	Telling = work.Telling
	// Choice is of the brain that does the work.
	Choice = work.Choice
	// Ending is how far a run goes.
	Ending = work.Ending
	// Report is what became of a run.
	Report = work.Report
	// NewSchedule is a task for later, as a person asks for it. One of Cron, Every and
	// At says when.
	NewSchedule = scheduling.NewSchedule
	// ScheduleStatus is a schedule as a person sees it.
	ScheduleStatus = scheduling.ScheduleStatus
	// TickStatus is one time at which a schedule was due.
	TickStatus = scheduling.TickStatus
	// Waiting is something that waits for a person.
	Waiting = cockpit.Waiting
	// Operator is a person who may decide.
	Operator = cockpit.Operator
	// Asking decides how a person is asked. With its zero value a question waits
	// for `nacre approvals` in another terminal until it expires.
	Asking = asking.Manner
	// Serving is what an installation offers while it serves.
	Serving = endpoints.Serving
	// Serve is what the long-lived side of an installation is started with.
	Serve = serve.Serve
)

// ErrNothingToAudit is a session whose work does not wait to be landed.
var ErrNothingToAudit = work.ErrNothingToAudit

// PluginReady has all that it wants.
const PluginReady = pluginadmin.PluginReady

// PluginWants starts, and does without what nobody confirmed.
const PluginWants = pluginadmin.PluginWants

// PluginFailed cannot be started.
const PluginFailed = pluginadmin.PluginFailed

// CheckEventPrefix accepts what can begin a topic, such as "task." or
// "message.inbound"; the empty prefix is every topic.
func CheckEventPrefix(prefix string) error { return events.CheckPrefix(prefix) }

// OpenRules opens what a project adds to the rules that ship, its .nacre folder;
// nil means that it adds none. done ends the reading.
func OpenRules(project string) (rules fs.FS, done func(), err error) { return order.OpenRules(project) }

// ListenFor accepts connections at the operator's address, until ctx ends or Close is called. It
// forwards their bytes to the socket that the plugin's handler listens on in its data folder.
func ListenFor(ctx context.Context, name nacre.PluginName, address netip.AddrPort, dataDir string) (*PluginListener, error) {
	return endpoints.ListenFor(ctx, name, address, dataDir)
}

// AccessLines are what config.toml has to say for a plugin to have credentials,
// given the files that they are in, in the order of keys.
func AccessLines(name nacre.PluginName, keys []string, files map[string]string) string {
	return pluginadmin.AccessLines(name, keys, files)
}
