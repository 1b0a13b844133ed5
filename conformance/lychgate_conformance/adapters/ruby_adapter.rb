# `ruby ruby_adapter.rb`: an adapter and a store in one, with the standard library only.
#
# The store is one append-only log, `{prefix}log`, locked with flock by every call: a line per
# change, its CRC and then JSON, fsynced before the answer. What a crash left of a line is cut off
# by the next call, or skipped for its CRC. Any number of processes may use one log. It never
# shrinks.

require "fileutils"
require "json"
require "securerandom"
require "zlib"

# A lone surrogate is text to the suite and no text to Ruby's JSON. All of them, in pairs or alone,
# become private characters on the way in and surrogates again on the way out.
def parse(line)
  private_use = line.gsub(/\\\\|\\u(d[89a-f]..)/i) do
    $1 ? [0x10F800 + $1.hex - 0xD800].pack("U") : $&
  end
  JSON.parse(private_use, max_nesting: false)
end

def generate(value)
  JSON.generate(value, max_nesting: false)
      .gsub(/[\u{10F800}-\u{10FFFF}]/) { format("\\u%04x", $&.ord - 0x10F800 + 0xD800) }
end

class Refusal < StandardError
  attr_reader :code

  def initialize(code, message)
    super(message)
    @code = code
  end
end

class Store
  CALLS = %w[add_task remove_task pending_tasks add_dead_task list_dead_tasks find_dead_task
             remove_dead_tasks sync].freeze

  def initialize(directory, prefix)
    raise Refusal.new("bad_option", "a prefix is the start of a file name") if prefix =~ %r{[/\0]}

    make_directory(File.expand_path(directory))
    @file = File.open(File.join(directory, prefix + "log"), "a+b", 0o600)
    sync_directory(directory)
    @file.sync = true
    @seen = 0
    @tasks = {}
    @dead = []
  end

  # One call, alone with the log and up to date with it.
  def call(verb, message)
    @file.flock(File::LOCK_EX)
    catch_up
    verb == "look" ? { pending: pending_tasks({}), dead: @dead } : send(verb, message)
  ensure
    @file.flock(File::LOCK_UN)
  end

  def close
    @file.close
  end

  private

  # Durable in the one around it, as is the log's name in it.
  def make_directory(directory)
    above = File.dirname(directory)
    make_directory(above) unless File.exist?(above)
    FileUtils.mkdir_p(directory)
    sync_directory(above) # where it was there, too: who made it may have died before this
  end

  def sync_directory(directory)
    File.open(directory, &:fsync)
  end

  def catch_up
    @file.seek(@seen)
    bytes = @file.read
    whole = (bytes.rindex("\n") || -1) + 1
    @file.truncate(@seen + whole) if whole < bytes.bytesize # somebody was killed in the middle
    bytes[0, whole].each_line do |line|
      change = line[9...-1] || ""
      next unless line.start_with?(format("%08x ", Zlib.crc32(change)))

      apply(JSON.parse(change.force_encoding("UTF-8"), max_nesting: false))
    end
    @seen += whole
  end

  def append(change)
    said = JSON.generate(change, max_nesting: false)
    line = format("%08x ", Zlib.crc32(said)) + said + "\n"
    @file.write(line)
    @file.fsync
    @seen += line.bytesize
    apply(change)
  end

  def apply(change)
    what, subject, task, publish_at = change
    case what
    when "add" then @tasks[subject] = [task, publish_at]
    when "remove" then @tasks.delete(subject)
    when "dead" then @dead << subject
    else @dead.reject! { |it| subject.include?(it["task_id"]) }
    end
  end

  def add_task(message)
    id = message["task_id"] || SecureRandom.hex(12)
    append(["add", id, message["task"], message["publish_at"]])
    id
  end

  def remove_task(message)
    append(["remove", message["task_id"]]) if @tasks.key?(message["task_id"])
    nil
  end

  def pending_tasks(_message)
    @tasks.map { |id, (task, at)| { task_id: id, task: task, publish_at: at } }
  end

  def add_dead_task(message)
    record = message.slice("task_id", "task_class", "attempts", "context")
    record["error_class"] = message["exception"]["class"]
    record["error_message"] = message["exception"]["message"] || ""
    record["failed_at"] = Time.now.to_f
    record["enqueued_at"] = nil
    append(["dead", record])
    nil
  end

  def list_dead_tasks(message)
    @dead.drop(message["offset"]).first(message["limit"] || @dead.size)
  end

  def find_dead_task(message)
    @dead.reverse_each.find { |it| it["task_id"] == message["task_id"] }
  end

  def remove_dead_tasks(message)
    found = @dead.map { |it| it["task_id"] } & message["task_ids"]
    append(["remove-dead", found]) unless found.empty?
    found.size
  end

  def sync(_message)
    nil # every change is durable when it is answered
  end
end

CLAIMS = { pending_scope: "all", survives_host_crash: true,
           fsync_policy: "always", uses_path: true, reclaims_space: false }.freeze
CAPABILITIES = %w[sync chdir times crash_check].freeze
STORES = {}

def open_store(message)
  STORES[message["store"]] || raise(Refusal.new("closed", "no such store"))
end

def answer(message)
  case verb = message["do"]
  when "hello" then { protocol: 1, name: "ruby log", claims: CLAIMS, capabilities: CAPABILITIES }
  when "open"
    STORES[message["store"]] = Store.new(message["path"], message["options"]["prefix"])
    nil
  when "chdir"
    Dir.chdir(message["path"])
    nil
  when "crash_check"
    store = Store.new(message["path"], message["options"]["prefix"])
    store.call("look", message).tap { store.close }
  when "close"
    open_store(message)
    STORES.delete(message["store"]).close
  when *Store::CALLS then open_store(message).call(verb, message)
  else raise Refusal.new("unsupported", "no verb #{verb}")
  end
end

def describe(error)
  case error
  when Refusal then { code: error.code, message: error.message, definite: true }
  when SystemCallError
    { code: "storage", message: error.message, definite: false, errno: error.errno }
  else { code: "internal", message: "#{error.class}: #{error.message}", definite: false }
  end
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

OUT = $stdout.dup
$stdout.reopen($stderr) # whatever is printed is no reply
OUT.sync = true
$stdin.each_line do |line|
  message = parse(line)
  begun = now
  reply = { id: message["id"] }
  begin
    reply[:ok] = answer(message)
  rescue StandardError => e
    reply[:error] = describe(e)
  end
  reply[:t] = [begun, now]
  OUT.write(generate(reply) + "\n")
end
