// Fetches with fetch, node:https or node:net: KIND URL.
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'

const [kind, url] = process.argv.slice(2)
const { protocol, hostname, port, pathname } = new URL(url)

const kinds = {
  fetch: async () => (await fetch(url)).text(),
  https: () => new Promise((resolve, reject) => {
    const client = protocol === 'https:' ? https : http
    client.get(url, { agent: false }, async (answer) => {
      let body = ''
      for await (const part of answer) body += part
      resolve(body)
    }).on('error', reject)
  }),
  net: async () => {
    const socket = net.connect({ host: hostname, port: Number(port || 80) })
    socket.write(`GET ${pathname} HTTP/1.0\r\nHost: ${hostname}\r\n\r\n`)
    let answer = ''
    for await (const part of socket) answer += part
    return answer.split('\r\n\r\n')[1]
  },
}
process.stdout.write(`${kind} ${await kinds[kind]()}`)
