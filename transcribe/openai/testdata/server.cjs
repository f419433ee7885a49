// The real whisper.cpp engine behind OpenAI's protocol, for tests:
//
//   node server.cjs MODULE MODEL
//
// prints the port of 127.0.0.1 that it listens on. One sound at a time, as
// whisper-server does it.
const fs = require('node:fs')
const http = require('node:http')
const os = require('node:os')
const path = require('node:path')

const [module_, model] = process.argv.slice(2)
const { WhisperContext } = require(module_)
const whisper = new WhisperContext({ filePath: model, useGpu: false })
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'whisper-'))
process.on('exit', () => fs.rmSync(dir, { recursive: true, force: true }))
process.on('SIGTERM', () => process.exit(0))

async function transcribe(form) {
  const file = path.join(dir, 'sound')
  fs.writeFileSync(file, Buffer.from(await form.get('file').arrayBuffer()))
  const heard = await whisper.transcribeFile(file, { language: form.get('language') ?? 'en' }).promise
  const segments = heard.segments.map(({ t0, t1, text }, id) => ({ id, start: t0 / 1000, end: t1 / 1000, text }))
  return { task: 'transcribe', language: heard.language, duration: 0, text: heard.result, segments }
}

let turn = Promise.resolve()
const server = http.createServer(async (request, response) => {
  const answer = (status, body) => response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
  if (request.method !== 'POST' || request.url !== '/v1/audio/transcriptions') {
    return answer(404, { error: { message: 'no such route' } })
  }
  try {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    const form = await new Response(Buffer.concat(chunks), { headers: request.headers }).formData()
    const mine = turn.then(() => transcribe(form))
    turn = mine.catch(() => {})
    answer(200, await mine)
  } catch (fault) {
    answer(400, { error: { message: String(fault) } })
  }
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
