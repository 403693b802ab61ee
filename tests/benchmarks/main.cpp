// SPDX-License-Identifier: BSD-3-Clause
//
// The program `benchmarks`. As it stands it is a Google Benchmark program; compare and peer.py share its other modes:
//
//     benchmarks --worker SECONDS   reads a name per line, runs it for about so long, answers with a line of JSON
//     benchmarks --memory NAME      how far a few steps in this fresh process raise memory above model and input
//     benchmarks --describe         which BLAS it runs on
//
// A name says what, its sizes and its threads: step/pre-ln/8x128x512x8x2048/2.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <normplace/nn/blas_description.hpp>

#include "work.hpp"

extern "C" __attribute__((weak)) void openblas_set_num_threads(int);

namespace benchmarks {
namespace {

struct Name {
    std::string kind, sizes;
    int threads;
};

Name parse(const std::string& name) {
    const std::size_t last = name.rfind('/'), middle = name.rfind('/', last - 1);
    if (last == std::string::npos || middle == std::string::npos) throw std::invalid_argument("no such benchmark");
    return {name.substr(0, middle), name.substr(middle + 1, last - middle - 1), std::stoi(name.substr(last + 1))};
}

template <std::size_t N>
Work make(Work (*factory)(const Sizes<N>&), const std::string& text) {
    Sizes<N> sizes{};
    std::istringstream stream(text);
    for (std::size_t& size : sizes) {
        if (!(stream >> size)) throw std::invalid_argument("sizes are " + std::to_string(N) + " numbers: 8x128");
        stream.ignore();  // x
    }
    return factory(sizes);
}

Work make(const std::string& kind, const std::string& sizes) {
    if (kind == "step/pre-ln") return make(pre_ln_step, sizes);
    if (kind == "step/post-ln") return make(post_ln_step, sizes);
    if (kind == "products") return make(layer_products, sizes);
    if (kind == "training") return make(training_step, sizes);
    if (kind == "training-layers") return make(training_layers, sizes);
    if (kind == "training-stack") return make(training_stack, sizes);
    if (kind == "norm-forward") return make(norm_forward, sizes);
    if (kind == "norm-backward") return make(norm_backward, sizes);
    if (kind == "softmax") return make(softmax, sizes);
    if (kind == "copy") return make(copy, sizes);
    if (kind == "attention") return make(causal_attention, sizes);
    throw std::invalid_argument("no such benchmark");
}

/// What OMP_NUM_THREADS does at the start of a program that uses the library: OpenBLAS obeys it, too. In this order,
/// because OpenBLAS built on OpenMP sets OpenMP's number as well.
void use_threads(int threads) {
    if (openblas_set_num_threads) openblas_set_num_threads(threads);
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
}

double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Seconds of each iteration, for about `wanted` seconds in all: at least 3 iterations, unless they are so long that a
/// pair of samples would lie far apart.
std::vector<double> iterate(const Work& work, double wanted) {
    using Clock = std::chrono::steady_clock;
    std::vector<double> times;
    for (double total = 0; total < wanted || (times.size() < 3 && total < 4 * wanted); total += times.back()) {
        const auto start = Clock::now();
        work();
        times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    return times;
}

std::string sample(const std::string& name, double wanted) {
    static std::map<std::string, Work> made;  // kept, so that a sample is of the steady state
    const double before = processor_seconds();
    const auto [kind, sizes, threads] = parse(name);
    use_threads(threads);
    Work& work = made[name];
    if (!work) {
        work = make(kind, sizes);
        work();
    }
    const std::vector<double> times = iterate(work, wanted);
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    std::ostringstream json;
    json << std::setprecision(9) << "{\"name\": \"" << name
         << "\", \"seconds\": " << (sorted[sorted.size() / 2] + sorted[(sorted.size() - 1) / 2]) / 2
         << ", \"iterations\": " << times.size() << ", \"cpu_seconds\": " << processor_seconds() - before
         << ", \"times\": [";
    for (std::size_t i = 0; i < times.size(); ++i) json << (i ? ", " : "") << times[i];
    json << "]}";
    return json.str();
}

template <class Answer>
std::string answer_or_error(const std::string& name, Answer&& answer) {
    try {
        return answer();
    } catch (const std::exception& error) {
        std::ostringstream json;
        json << "{\"name\": " << std::quoted(name) << ", \"error\": " << std::quoted(error.what()) << "}";
        return json.str();
    }
}

int work_for(double seconds) {
    std::cout << "{}" << std::endl;  // ready
    for (std::string name; std::getline(std::cin, name);)
        std::cout << answer_or_error(name, [&] { return sample(name, seconds); }) << std::endl;
    return 0;
}

long kilobytes(const std::string& field) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (long value = 0; word == field && status >> value) return value;
    throw std::runtime_error("/proc/self/status has no " + field);
}

/// Before the step is measured a tiny one runs, so that code and the BLAS are in memory already.
std::string memory(const std::string& name) {
    const auto [kind, sizes, threads] = parse(name);
    use_threads(threads);
    make(kind, kind == "attention" ? "1x8x1x8" : "1x8x8x1x8")();
    const Work work = make(kind, sizes);
    std::ofstream("/proc/self/clear_refs") << 5 << std::flush;  // VmHWM starts again from here
    const long before = kilobytes("VmRSS:");
    for (int i = 0; i < (kind == "attention" ? 1 : 3); ++i) work();
    const long peak = kilobytes("VmHWM:");
    return "{\"name\": \"" + name + "\", \"before\": " + std::to_string(before) +
           ", \"growth\": " + std::to_string(peak - before) + "}";
}

/// What the library says of its BLAS, and the file that is loaded.
std::string description() {
    const normplace::BlasDescription blas = normplace::blas_description();
    std::string file;
    std::ifstream maps("/proc/self/maps");
    for (std::string word; file.empty() && maps >> word;)
        if (word.find("/lib") != std::string::npos && word.find("blas") != std::string::npos) file = word;
    std::ostringstream json;
    json << "{\"library\": " << std::quoted(blas.library) << ", \"kernels\": " << std::quoted(blas.kernels)
         << ", \"advice\": " << std::quoted(blas.advice) << ", \"file\": " << std::quoted(file)
         << ", \"compiler\": " << std::quoted(__VERSION__) << "}";
    return json.str();
}

void google_benchmark(benchmark::State& state, const std::string& name) {
    try {
        const auto [kind, sizes, threads] = parse(name);
        use_threads(threads);
        const Work work = make(kind, sizes);
        work();
        for ([[maybe_unused]] auto iteration : state) work();
    } catch (const std::exception& error) {
        state.SkipWithError(error.what());
    }
}

int run_google_benchmark(int argc, char** argv) {
    std::vector<std::string> names = {"norm-forward/1024x512/1",
                                      "norm-backward/1024x512/1",
                                      "softmax/4096x512/1",
                                      "attention/2x1024x8x64/1",
                                      "training-layers/32x32x128x4x512x6/1",
                                      "training-stack/32x32x128x4x512x6/1",
                                      "training/32x32x128x4x512x6/1"};
    for (const std::string sizes : {"32x32x128x4x512", "8x128x512x8x2048", "4x512x512x8x2048", "1x1024x768x12x3072"})
        for (const std::string& name : {"products/" + sizes, "step/pre-ln/" + sizes, "step/post-ln/" + sizes}) {
            names.push_back(name + "/1");
            if (name.starts_with("step")) names.push_back(name + "/2");
        }
    for (const std::string& name : names)
        benchmark::RegisterBenchmark(name.c_str(), [name](benchmark::State& state) { google_benchmark(state, name); })
            ->UseRealTime()
            ->Unit(benchmark::kMicrosecond);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "", operand = argc > 2 ? argv[2] : "";
    if (mode == "--worker") return benchmarks::work_for(operand.empty() ? 0.15 : std::stod(operand));
    if (mode == "--memory") {
        std::cout << benchmarks::answer_or_error(operand, [&] { return benchmarks::memory(operand); }) << '\n';
        return 0;
    }
    if (mode == "--describe") {
        std::cout << benchmarks::description() << '\n';
        return 0;
    }
    return benchmarks::run_google_benchmark(argc, argv);
}
