package egress

// Reason says why something was denied. The values are part of the log.
type Reason string

// The reasons.
const (
	ReasonNameNotAllowed   Reason = "name_not_allowed"
	ReasonNameInvalid      Reason = "name_invalid"
	ReasonDeniedByRule     Reason = "denied_by_rule"
	ReasonPortNotAllowed   Reason = "port_not_allowed"
	ReasonProtoNotAllowed  Reason = "proto_not_allowed"
	ReasonIPLiteral        Reason = "ip_literal"
	ReasonUnmappedAddr     Reason = "unmapped_addr"
	ReasonAddrDenied       Reason = "addr_denied"
	ReasonAddrMixed        Reason = "addr_mixed"
	ReasonAddrShared       Reason = "addr_shared"
	ReasonUnresolved       Reason = "unresolved"
	ReasonDialFailed       Reason = "dial_failed"
	ReasonRuleExpired      Reason = "rule_expired"
	ReasonRuleExhausted    Reason = "rule_exhausted"
	ReasonPolicyRevoked    Reason = "policy_revoked"
	ReasonSNIMissing       Reason = "sni_missing"
	ReasonSNIMismatch      Reason = "sni_mismatch"
	ReasonECH              Reason = "ech_present"
	ReasonHelloTimeout     Reason = "hello_timeout"
	ReasonHostMismatch     Reason = "host_mismatch"
	ReasonPathAmbiguous    Reason = "path_ambiguous"
	ReasonPathNotAllowed   Reason = "path_not_allowed"
	ReasonMethodNotAllowed Reason = "method_not_allowed"
	ReasonWebSocket        Reason = "websocket_not_allowed"
	ReasonSmuggling        Reason = "smuggling"
	ReasonExpect           Reason = "expect_unknown"
	ReasonSecretScope      Reason = "secret_scope"
	ReasonLimitNames       Reason = "limit_names"
	ReasonLimitFlows       Reason = "limit_flows"
	ReasonLimitRate        Reason = "limit_rate"
	ReasonMalformed        Reason = "malformed"
	ReasonAudit            Reason = "audit"
	ReasonIdle             Reason = "idle"
	ReasonUpstreamTLS      Reason = "upstream_tls"
	ReasonStopped          Reason = "stopped"
)

// text is the reason in words, worded as policy: a program that reads it is
// not to look for a way around.
var text = map[Reason]string{
	ReasonNameNotAllowed:   "the network policy of this sandbox does not name this host",
	ReasonNameInvalid:      "this is not a host name that the network policy could name",
	ReasonDeniedByRule:     "the network policy of this sandbox denies this host",
	ReasonPortNotAllowed:   "the network policy names this host, but not this port",
	ReasonProtoNotAllowed:  "the network policy does not allow this protocol here",
	ReasonIPLiteral:        "the network policy allows names, not addresses",
	ReasonUnmappedAddr:     "no name leads to this address",
	ReasonAddrDenied:       "it is, or leads to, an address that sandboxes do not reach",
	ReasonAddrMixed:        "one of the addresses of the name is one that no sandbox may reach",
	ReasonAddrShared:       "several names lead to this address, and the connection does not say which it is for",
	ReasonUnresolved:       "the name has no address",
	ReasonDialFailed:       "the host did not accept the connection",
	ReasonRuleExpired:      "the time that the network policy gave is over",
	ReasonRuleExhausted:    "what the network policy granted is used up",
	ReasonPolicyRevoked:    "the network policy has changed",
	ReasonSNIMissing:       "the TLS connection does not say which host it is for",
	ReasonSNIMismatch:      "the TLS connection is for another host than its address",
	ReasonECH:              "the TLS connection hides which host it is for",
	ReasonHelloTimeout:     "the connection did not say in time what it is for",
	ReasonHostMismatch:     "the request is for another host than its connection",
	ReasonPathAmbiguous:    "the path of the request can be read in two ways",
	ReasonPathNotAllowed:   "the network policy names this host, but not this path",
	ReasonMethodNotAllowed: "the network policy names this host, but not this method",
	ReasonWebSocket:        "the network policy does not allow WebSocket here",
	ReasonSmuggling:        "the request can be read in two ways",
	ReasonExpect:           "the request expects what no host is asked for; only 100-continue is known",
	ReasonSecretScope:      "a secret of another host is in this request",
	ReasonLimitNames:       "too many different names were looked up",
	ReasonLimitFlows:       "too many connections are open",
	ReasonLimitRate:        "too many connections were opened at once",
	ReasonMalformed:        "it cannot be read",
	ReasonAudit:            "the log cannot be written",
	ReasonIdle:             "nothing was sent for too long",
	ReasonUpstreamTLS:      "the certificate of the host is not to be trusted",
	ReasonStopped:          "the network of this sandbox has ended",
}

// Text is the reason in words for a user.
func (r Reason) Text() string {
	if t, ok := text[r]; ok {
		return t
	}
	return string(r)
}
