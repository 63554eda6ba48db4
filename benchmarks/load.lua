-- wrk -s load.lua URL -- FILE: posts each line of FILE in turn, and ends with one line of numbers:
-- answers, microseconds, p50 and p99 in microseconds, errors of sockets, answers that are not 2xx.
local bodies, turn = {}, 0

function init(arguments)
  local headers = { ["Content-Type"] = "application/json" }
  for body in io.lines(arguments[1]) do
    bodies[#bodies + 1] = wrk.format("POST", nil, headers, body)
  end
end

function request()
  turn = turn % #bodies + 1
  return bodies[turn]
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format("%d %d %d %d %d %d\n",
    summary.requests, summary.duration, latency:percentile(50.0), latency:percentile(99.0),
    errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
