// A witness for simulated runs: the same pipeline with churn, written anew for SimGrid, whose
// models of hosts and links are none of ours. It knows nothing of the protocol: microbatches are
// dealt in turn, a death is known at once, and microbatches that were on their way through the dead
// peer are done again from their beginning.
//
// usage: simgrid_witness FILE
//   FILE has a line `KEY VALUE` for each field of Scene, and lines `death TIME PEER` and
//   `join TIME PEER` of the trace.
// Prints one JSON object. Peers are dealt to stages in turn: peer p serves stage p % stages. Build
// it by `ninja -C build simgrid_witness`, where SimGrid is installed.

#include <sys/resource.h>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

namespace {

struct Scene {
  double peers = 8, stages = 4, steps = 2, microbatches = 16, window = 8;
  double forward_s = 0.1, backward_s = 0.3, update_s = 0;
  double boundary_bytes = 1e6, reduction_bytes = 0;  // of a microbatch; of a stage's gradients
  double latency_s = 0.001, bytes_per_s = 1e8;       // of each peer's link
  double join_s = 0;                                 // until a newcomer serves
};

struct ChurnEvent {
  double at_s;
  int peer;
  bool death;
};

constexpr double kControlBytes = 64;

// What a message asks for. A microbatch has a number in its step, and a try, which grows when it
// begins anew: what belongs to an earlier one counts nothing.
struct Message {
  enum class Kind : std::uint8_t { forward, backward, seal, share, chunk, commit, done, reduced };
  Kind kind = Kind::forward;
  int step = 0;
  int microbatch = 0;
  int attempt = 0;
  std::vector<int> path = {};  // the peers of the stages so far
  double bytes = kControlBytes;
};

class Pipeline;

// One peer: an actor that receives, and one that computes.
struct Peer {
  int id = 0;
  int stage = 0;
  bool serves = true;
  int life = 0;
  sg::Host* host = nullptr;
  std::deque<Message> jobs = {};
  sg::MutexPtr mutex = {};
  sg::ConditionVariablePtr changed = {};
  // Of the step that is reduced.
  enum class Phase : std::uint8_t { waits, adds, gathers, is_done };
  Phase phase = Phase::waits;
  int shares_awaited = 0, chunks_awaited = 0;
};

class Pipeline {
 public:
  Pipeline(sg::Engine& engine, const Scene& scene, std::vector<ChurnEvent> churn)
      : engine_(engine), scene_(scene), churn_(std::move(churn)) {
    build_platform();
  }

  void run() {
    for (auto& peer : peers_) start(*peer);
    sg::Actor::create("leader", leader_host_, [this] { lead(); });
    engine_.run();
  }

  double makespan_s() const { return makespan_s_; }
  std::int64_t events() const { return events_; }
  int committed() const { return committed_; }

 private:
  static constexpr int kLeader = -1;
  // Each life has a mailbox of its own: what was on its way as a host failed ends who takes it out.
  std::string mailbox_of(int peer) const {
    if (peer == kLeader) return "leader";
    const int life = peers_[static_cast<std::size_t>(peer)]->life;
    return "peer-" + std::to_string(peer) + "-" + std::to_string(life);
  }
  int stages() const { return static_cast<int>(scene_.stages); }

  void build_platform() {
    auto* const zone = sg::create_star_zone("swarm");
    for (int id = 0; id < static_cast<int>(scene_.peers); ++id) {
      auto peer = std::make_unique<Peer>();
      peer->id = id;
      peer->stage = id % stages();
      peer->host = join(zone, "host-" + std::to_string(id));
      peers_.push_back(std::move(peer));
    }
    leader_host_ = join(zone, "leader");
    zone->seal();
  }
  sg::Host* join(sg::NetZone* zone, const std::string& name) const {
    sg::Host* const host = zone->create_host(name, 1e9);
    const auto line = [&](const std::string& direction) {
      return zone->create_link(name + direction, scene_.bytes_per_s)
          ->set_latency(scene_.latency_s / 2)
          ->seal();
    };
    const sg::LinkInRoute up(line("-up")), down(line("-down"));
    zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {up}, false);
    zone->add_route(nullptr, host->get_netpoint(), nullptr, nullptr, {down}, false);
    host->seal();
    return host;
  }

  void start(Peer& peer) {
    peer.jobs.clear();
    peer.mutex = sg::Mutex::create();
    peer.changed = sg::ConditionVariable::create();
    sg::Actor::create("net", peer.host, [this, &peer] { receive(peer); })->daemonize();
    sg::Actor::create("cpu", peer.host, [this, &peer] { compute(peer); })->daemonize();
  }

  // What goes to the dead is lost.
  void send(int to, Message message) {
    if (to != kLeader && !peers_[static_cast<std::size_t>(to)]->serves) return;
    ++events_;
    const double bytes = message.bytes;
    sg::Mailbox::by_name(mailbox_of(to))
        ->put_init(new Message(std::move(message)), static_cast<std::uint64_t>(bytes))
        ->detach([](void* dropped) { delete static_cast<Message*>(dropped); });
  }

  // None where its sender has died meanwhile.
  static std::unique_ptr<Message> next_message(sg::Mailbox& mailbox) {
    try {
      return mailbox.get_unique<Message>();
    } catch (const simgrid::NetworkFailureException&) {
      return nullptr;
    }
  }

  void receive(Peer& peer) {
    sg::Mailbox* const mailbox = sg::Mailbox::by_name(mailbox_of(peer.id));
    mailbox->set_receiver(sg::Actor::self());
    while (true) {
      const auto message = next_message(*mailbox);
      if (message == nullptr) continue;
      const std::unique_lock<sg::Mutex> lock(*peer.mutex);
      peer.jobs.push_back(*message);
      peer.changed->notify_all();
    }
  }

  // Backward passes first, as swarms do it.
  static Message next_job(Peer& peer) {
    std::unique_lock<sg::Mutex> lock(*peer.mutex);
    while (peer.jobs.empty()) peer.changed->wait(lock);
    const auto first = std::find_if(peer.jobs.begin(), peer.jobs.end(), [](const Message& m) {
      return m.kind != Message::Kind::forward;
    });
    const auto taken = first == peer.jobs.end() ? peer.jobs.begin() : first;
    Message message = *taken;
    peer.jobs.erase(taken);
    return message;
  }

  void compute(Peer& peer) {
    using Kind = Message::Kind;
    while (true) {
      Message job = next_job(peer);
      if (job.kind == Kind::forward) {
        do_forward(peer, std::move(job));
      } else if (job.kind == Kind::backward) {
        do_backward(peer, std::move(job));
      } else {
        reduce(peer, job);
      }
    }
  }

  bool is_of_now(const Message& m) const {
    return m.step == step_ && m.attempt == attempts_[static_cast<std::size_t>(m.microbatch)];
  }

  // The last stage's forward pass and backward pass are one.
  void do_forward(Peer& peer, Message job) {
    if (!is_of_now(job)) return;
    job.path.push_back(peer.id);
    if (peer.stage == stages() - 1) return do_backward(peer, std::move(job), scene_.forward_s);
    sg::this_actor::sleep_for(scene_.forward_s);
    job.bytes = scene_.boundary_bytes;
    const int to = take_in_turn(peer.stage + 1, peer.id);
    if (to < 0) return;
    path_of_[job.microbatch].insert(to);
    send(to, std::move(job));
  }
  void do_backward(Peer& peer, Message job, double before_s = 0) {
    if (!is_of_now(job)) return;
    sg::this_actor::sleep_for(before_s + scene_.backward_s);
    job.kind = Message::Kind::backward;
    if (peer.stage > 0) {
      const int to = job.path[static_cast<std::size_t>(peer.stage) - 1];
      job.bytes = scene_.boundary_bytes;
      return send(to, std::move(job));
    }
    job.kind = Message::Kind::done;
    job.bytes = kControlBytes;
    send(kLeader, std::move(job));
  }

  // Each replica adds up one part of the stage's gradient, of which it gets all others' shares, and
  // hands the result to them. Shares may come before the seal; what belongs to a reduction that was
  // begun anew counts nothing.
  void reduce(Peer& peer, const Message& job) {
    using Kind = Message::Kind;
    if (job.kind == Kind::commit) return sg::this_actor::sleep_for(scene_.update_s);
    if (job.attempt != reduction_) return;
    const std::vector<int> others = others_of(peer);
    const double part = scene_.reduction_bytes / static_cast<double>(others.size() + 1);
    const auto to_all = [&](Kind kind) {
      for (const int to : others) send(to, {kind, job.step, 0, reduction_, {}, part});
    };
    if (job.kind == Kind::seal) {
      peer.phase = Peer::Phase::adds;
      peer.shares_awaited += static_cast<int>(others.size());
      peer.chunks_awaited += static_cast<int>(others.size());
      to_all(Kind::share);
    } else {
      --(job.kind == Kind::share ? peer.shares_awaited : peer.chunks_awaited);
    }
    if (peer.phase == Peer::Phase::adds && peer.shares_awaited == 0) {
      peer.phase = Peer::Phase::gathers;
      to_all(Kind::chunk);
    }
    if (peer.phase == Peer::Phase::gathers && peer.chunks_awaited == 0) {
      peer.phase = Peer::Phase::is_done;
      send(kLeader, {Kind::reduced, job.step, 0, reduction_});
    }
  }

  std::vector<int> others_of(const Peer& peer) const {
    std::vector<int> others;
    for (const auto& other : peers_) {
      const bool reduces = reducers_.count(other->id) > 0;
      if (other->stage == peer.stage && reduces && other->id != peer.id) {
        others.push_back(other->id);
      }
    }
    return others;
  }
  // The next replica of the stage, from where this sender last was. Senders of a stage begin at
  // different ones.
  int take_in_turn(int stage, int sender) {
    std::vector<int> replicas;
    for (const auto& peer : peers_) {
      if (peer->stage == stage && peer->serves) replicas.push_back(peer->id);
    }
    if (replicas.empty()) return -1;
    auto& turn = turns_.try_emplace({sender, stage}, sender / stages()).first->second;
    return replicas[static_cast<std::size_t>(turn++) % replicas.size()];
  }

  void issue(int microbatch) {
    const int to = take_in_turn(0, -1);
    if (to < 0) return;
    Message message;
    message.step = step_;
    message.microbatch = microbatch;
    message.attempt = attempts_[static_cast<std::size_t>(microbatch)];
    path_of_[microbatch] = {to};
    send(to, std::move(message));
  }

  void lead() {
    sg::Mailbox* const mailbox = sg::Mailbox::by_name(mailbox_of(kLeader));
    mailbox->set_receiver(sg::Actor::self());
    sg::Actor::create("churn", leader_host_, [this] { make_churn(); });
    for (step_ = 0; step_ < static_cast<int>(scene_.steps); ++step_) {
      work_through(*mailbox);
      finish_step(*mailbox);
      ++committed_;
    }
    makespan_s_ = sg::Engine::get_clock();
    sg::Actor::kill_all();
  }

  void work_through(sg::Mailbox& mailbox) {
    const int all = static_cast<int>(scene_.microbatches);
    attempts_.assign(static_cast<std::size_t>(all), 0);
    open_.clear();
    int next = 0, done = 0;
    while (done < all) {
      while (next < all && static_cast<int>(open_.size()) < static_cast<int>(scene_.window)) {
        open_.insert(next);
        issue(next++);
      }
      const auto message = next_message(mailbox);
      if (message == nullptr || message->kind != Message::Kind::done || !is_of_now(*message))
        continue;
      if (open_.erase(message->microbatch) > 0) ++done;
    }
  }

  // A death while a step is reduced has it reduced anew by those that are left.
  void finish_step(sg::Mailbox& mailbox) {
    reducing_ = true;
    do {
      reduce_again_ = false;
      std::size_t awaited = begin_reduction();
      while (awaited > 0 && !reduce_again_) {
        const auto message = next_message(mailbox);
        if (message != nullptr && message->kind == Message::Kind::reduced &&
            message->attempt == reduction_) {
          --awaited;
        }
      }
    } while (reduce_again_);
    reducing_ = false;
    for (auto& peer : peers_) {
      if (peer->serves) send(peer->id, {Message::Kind::commit, step_});
    }
  }

  // With those who serve now: how many they are. Who joins meanwhile waits for the next one.
  std::size_t begin_reduction() {
    ++reduction_;
    reducers_.clear();
    for (const auto& peer : peers_) {
      peer->shares_awaited = peer->chunks_awaited = 0;
      peer->phase = Peer::Phase::waits;
      if (peer->serves) reducers_.insert(peer->id);
    }
    for (const int id : reducers_) send(id, {Message::Kind::seal, step_, 0, reduction_});
    return reducers_.size();
  }

  void make_churn() {
    for (const ChurnEvent& event : churn_) {
      sg::this_actor::sleep_until(event.at_s);
      Peer& peer = *peers_[static_cast<std::size_t>(event.peer)];
      event.death ? die(peer) : come_back(peer);
    }
  }
  void die(Peer& peer) {
    if (!peer.serves) return;
    peer.serves = false;
    sg::Mailbox::by_name(mailbox_of(peer.id))->set_receiver(nullptr);
    peer.host->turn_off();
    if (reducing_) {
      reduce_again_ = true;
      return send(kLeader, {});
    }
    for (const int microbatch : open_) {
      if (path_of_[microbatch].count(peer.id) == 0) continue;
      ++attempts_[static_cast<std::size_t>(microbatch)];
      issue(microbatch);
    }
  }
  void come_back(Peer& peer) {
    sg::this_actor::sleep_for(scene_.join_s);
    if (peer.serves) return;
    peer.host->turn_on();
    ++peer.life;
    peer.serves = true;
    start(peer);
  }

  sg::Engine& engine_;
  Scene scene_;
  std::vector<ChurnEvent> churn_;
  std::vector<std::unique_ptr<Peer>> peers_;
  sg::Host* leader_host_ = nullptr;
  std::map<std::pair<int, int>, int> turns_;
  int step_ = 0;
  std::vector<int> attempts_;
  std::set<int> open_;
  std::map<int, std::set<int>> path_of_;  // peers that had a microbatch, or will
  int reduction_ = 0;                     // its number
  std::set<int> reducers_;                // who takes part in it
  bool reducing_ = false, reduce_again_ = false;
  double makespan_s_ = 0;
  std::int64_t events_ = 0;
  int committed_ = 0;
};

bool read_scene(const char* path, Scene& scene, std::vector<ChurnEvent>& churn) {
  const std::map<std::string, double*> fields{{"peers", &scene.peers},
                                              {"stages", &scene.stages},
                                              {"steps", &scene.steps},
                                              {"microbatches", &scene.microbatches},
                                              {"window", &scene.window},
                                              {"forward_s", &scene.forward_s},
                                              {"backward_s", &scene.backward_s},
                                              {"update_s", &scene.update_s},
                                              {"boundary_bytes", &scene.boundary_bytes},
                                              {"reduction_bytes", &scene.reduction_bytes},
                                              {"latency_s", &scene.latency_s},
                                              {"bytes_per_s", &scene.bytes_per_s},
                                              {"join_s", &scene.join_s}};
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    double value = 0;
    words >> key >> value;
    if (key == "death" || key == "join") {
      int peer = 0;
      words >> peer;
      churn.push_back({value, peer, key == "death"});
    } else if (const auto found = fields.find(key); found != fields.end()) {
      *found->second = value;
    } else {
      std::fprintf(stderr, "simgrid_witness: %s: no such key: %s\n", path, key.c_str());
      return false;
    }
    if (!words) {
      std::fprintf(stderr, "simgrid_witness: %s: not a line KEY VALUE: %s\n", path, line.c_str());
      return false;
    }
  }
  return !file.bad() && file.eof();
}

}  // namespace

int main(int argc, char** argv) {
  sg::Engine engine(&argc, argv);
  // Links as they are said: no factors that were fitted to some clusters, no limit by a window of
  // TCP, nothing for acknowledgements. Contexts are small, so that many actors fit.
  sg::Engine::set_config("network/model:CM02");
  sg::Engine::set_config("network/TCP-gamma:0");
  sg::Engine::set_config("network/crosstraffic:0");
  sg::Engine::set_config("contexts/stack-size:64");
  Scene scene;
  std::vector<ChurnEvent> churn;
  if (argc != 2 || !read_scene(argv[1], scene, churn)) return 2;
  const auto start = std::chrono::steady_clock::now();
  Pipeline pipeline(engine, scene, std::move(churn));
  pipeline.run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf(
      "{\"makespan_s\": %.9f, \"steps\": %d, \"messages\": %lld, \"wall_s\": %.6f, "
      "\"peak_memory_bytes\": %lld}\n",
      pipeline.makespan_s(), pipeline.committed(), static_cast<long long>(pipeline.events()),
      took.count(), static_cast<long long>(used.ru_maxrss) * 1024);
  return 0;
}
