// A consumer on NATS with nats.go: `consumer URL FILE`. What it stores: see consumer_state.py.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

type Link struct {
	Sequence int64  `json:"sequence"`
	Hash     string `json:"hash"`
}

type Reply struct {
	Attempt int64  `json:"attempt"`
	Text    string `json:"text"`
	IsCut   bool   `json:"is_cut"`
}

type State struct {
	Place       uint64            `json:"place"`
	TokensPlace uint64            `json:"tokens_place"`
	Count       int               `json:"count"`
	Digest      string            `json:"digest"`
	Links       map[string]Link   `json:"links"`
	Replies     map[string]*Reply `json:"replies"`
}

type storedEvent struct {
	EventEnvelope
	Type string `json:"type"`
}

type Consumer struct {
	lock  sync.Mutex
	file  string
	state State
}

func hash(bytes []byte) string {
	sum := sha256.Sum256(bytes)
	return hex.EncodeToString(sum[:])
}

func require(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func (c *Consumer) load() {
	c.state = State{Links: map[string]Link{}, Replies: map[string]*Reply{}}
	if stored, err := os.ReadFile(c.file); err == nil {
		require(json.Unmarshal(stored, &c.state))
	}
	fmt.Println(c.state.Count, c.state.TokensPlace)
}

func (c *Consumer) save() {
	stored, err := json.Marshal(c.state)
	require(err)
	require(os.WriteFile(c.file+".new", stored, 0o600))
	require(os.Rename(c.file+".new", c.file))
	fmt.Println(c.state.Count, c.state.TokensPlace)
}

func getPlace(message *nats.Msg) uint64 {
	data, err := message.Metadata()
	require(err)
	return data.Sequence.Stream
}

// parse returns the event, or nil for a message that is no event of the session in its subject.
func parse(message *nats.Msg) *storedEvent {
	var event storedEvent
	names := strings.Split(message.Subject, ".")
	if json.Unmarshal(message.Data, &event) != nil || event.Tenant != names[1] || event.Subject != names[2] {
		return nil
	}
	return &event
}

func (c *Consumer) addEvent(event *storedEvent, stored []byte) {
	before, prevhash := c.state.Links[event.Subject], ""
	if event.Prevhash != nil {
		prevhash = *event.Prevhash
	}
	if event.Sequence != before.Sequence+1 || prevhash != before.Hash {
		log.Fatalf("event %d of %s does not continue the one before", event.Sequence, event.Subject)
	}
	digest := hash(stored)
	c.state.Links[event.Subject] = Link{event.Sequence, "sha256:" + digest}
	c.state.Count++
	line := fmt.Sprintf("%s %s %d %s %s", c.state.Digest, event.Subject, event.Sequence, event.Type, digest)
	c.state.Digest = hash([]byte(line))
}

func (c *Consumer) onEvent(message *nats.Msg) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if event := parse(message); event != nil {
		c.addEvent(event, message.Data)
	}
	c.state.Place = getPlace(message)
	c.save()
}

func (r *Reply) addToken(token TokenData) {
	if token.Attempt < r.Attempt {
		return
	}
	if token.Attempt > r.Attempt || token.Kind == "attempt-reset" {
		r.Attempt, r.Text = token.Attempt, ""
	}
	if token.Kind != "token" {
		return
	}
	points := []rune(r.Text)
	if token.Offset > int64(len(points)) {
		r.IsCut = true
	} else {
		r.Text = string(points[:token.Offset]) + token.Text
	}
}

func (c *Consumer) onToken(message *nats.Msg) {
	c.lock.Lock()
	defer c.lock.Unlock()
	var token TokenData
	require(json.Unmarshal(message.Data, &token))
	names := strings.Split(message.Subject, ".")
	turn := names[2] + "/" + names[3]
	if c.state.Replies[turn] == nil {
		c.state.Replies[turn] = &Reply{}
	}
	c.state.Replies[turn].addToken(token)
	c.state.TokensPlace = getPlace(message)
	c.save()
}

func main() {
	consumer := &Consumer{file: os.Args[2]}
	consumer.load()
	events, tokens := consumer.state.Place+1, consumer.state.TokensPlace+1
	connection, err := nats.Connect(os.Args[1])
	require(err)
	stream, err := connection.JetStream()
	require(err)
	read := func(name, subject string, handle nats.MsgHandler, from uint64) {
		_, err := stream.Subscribe(subject, handle, nats.BindStream(name), nats.OrderedConsumer(), nats.StartSequence(from))
		require(err)
	}
	read("SESSIONS", "session.default.>", consumer.onEvent, events)
	read("TOKENS", "tokens.default.>", consumer.onToken, tokens)
	select {}
}
