//go:build race

package bridge

// raceDetector tells that everything takes many times as long.
const raceDetector = true
