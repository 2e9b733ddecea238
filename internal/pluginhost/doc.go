// Package pluginhost finds plugins, keeps each one's handler running as a
// process of its own, and carries out tool calls through them (D-20, D-21).
//
// It promises that a plugin's failure is its own, whatever a handler writes, withholds, floods or
// crashes (D-14, D-23). Its calls are answered within their deadlines, other plugins go on, and the
// agent learns a category or a code and no detail. What a handler asks back is answered only for
// the request whose ticket it quotes (D-26).
//
// It does not confine handlers, validate arguments or decide who may call
// what: how a process starts is the caller's function, and checks are the
// kernel's.
package pluginhost
