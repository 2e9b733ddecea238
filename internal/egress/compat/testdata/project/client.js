// Node's own clients: fetch and WebSocket, and https over a CONNECT of its own.
const http = require('http'), https = require('https')
const [how, url] = process.argv.slice(2)

async function viaFetch() {
  const response = await fetch(url)
  console.log(response.status, await response.text())
}

function viaConnect() {
  const { hostname } = new URL(url), proxy = new URL(process.env.HTTPS_PROXY)
  const tunnel = http.request({ host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: hostname + ':443' })
  tunnel.on('connect', (answer, socket) => {
    if (answer.statusCode !== 200) { console.error(answer.statusCode, answer.statusMessage); process.exit(1) }
    https.get(url, { socket, agent: false, servername: hostname }, (r) => r.pipe(process.stdout))
  })
  tunnel.end()
}

function viaWebSocket() {
  const socket = new WebSocket(url), words = ['one', 'two', 'three']
  socket.onopen = () => words.forEach((w) => socket.send(w))
  socket.onmessage = ({ data }) => { console.log('echo', data); if (data === words[2]) process.exit(0) }
  socket.onerror = (e) => { console.error(e.error ?? e); process.exit(1) }
}

const fail = (e) => { console.error(e.cause ?? e); process.exit(1) }
if (how === 'fetch') viaFetch().catch(fail)
else if (how === 'websocket') viaWebSocket()
else viaConnect()
