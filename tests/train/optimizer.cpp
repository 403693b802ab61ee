// Any optimizer behind one type, one of the user's too; and that a step allocates nothing.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include <normplace/train/adam.hpp>
#include <normplace/train/gradient_clipping.hpp>
#include <normplace/train/optimizer.hpp>
#include <normplace/train/radam.hpp>
#include <normplace/train/sgd.hpp>

#include "parameters_by_hand.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {
std::atomic<long> allocations = 0;

void* counted(std::size_t size, std::size_t alignment) {
    ++allocations;
    void* memory = alignment ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                             : std::malloc(size ? size : 1);
    if (!memory) throw std::bad_alloc();
    return memory;
}

/// W = W - eta sign(G): the least that an optimizer needs.
template <class T>
struct SignDescent {
    explicit SignDescent(const ParameterList<T>& list) : parameters(list) {}
    void step(double learning_rate) {
        for (const auto& parameter : parameters)
            for (std::size_t i = 0; i < parameter.value.size(); ++i)
                parameter.value[i] -= static_cast<T>(std::copysign(learning_rate, double(parameter.gradient[i])));
        ++count;
    }
    std::uint64_t steps() const { return count; }
    void resume(std::uint64_t steps) { count = steps; }
    std::vector<NamedTensor<T>> state() { return {}; }

    ParameterList<T> parameters;
    std::uint64_t count = 0;
};

struct NoState {
    void step(double) {}
    std::uint64_t steps() const { return 0; }
    void resume(std::uint64_t) {}
};
struct CannotResume {
    void step(double) {}
    std::uint64_t steps() const { return 0; }
    std::vector<NamedTensor<float>> state() { return {}; }
};

}  // namespace

// Not inlined: g++ would see a free of what a new has returned.
[[gnu::noinline]] void* operator new(std::size_t size) { return counted(size, 0); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
    return counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

static_assert(Optimizer<AnyOptimizer<float>, float>);
static_assert(Optimizer<SignDescent<float>, float>);
static_assert(!Optimizer<SignDescent<float>, double>);
static_assert(!Optimizer<NoState, float>);
static_assert(!Optimizer<CannotResume, float>);
static_assert(!std::is_constructible_v<AnyOptimizer<float>, NoState>);

TEST_CASE("any optimizer does what it holds does, and can be exchanged for one of another kind") {
    ParametersByHand<float> held = golden_parameters<float>(), plain = golden_parameters<float>();
    const ParameterList<float> list = held.list(), other = plain.list();
    set_golden_gradients(list, 0);
    set_golden_gradients(other, 0);

    AnyOptimizer<float> any = SignDescent<float>(list);
    SignDescent<float> sign(other);
    any.step(0.1);
    sign.step(0.1);
    CHECK(values_of(list) == values_of(other));
    CHECK(any.state().empty());

    any = Adam<float>(list);
    Adam<float> adam(other);
    CHECK(any.steps() == 0);
    any.resume(4);
    adam.resume(4);
    for (int t = 0; t < 3; ++t) {
        any.step(0.1);
        adam.step(0.1);
        CHECK(values_of(list) == values_of(other));
    }
    CHECK(any.steps() == 7);
    CHECK(any.state().size() == 4);
    CHECK(any.state()[0].name == "first_moment." + list[0].name);
    CHECK(any.state()[2].name == "second_moment." + list[0].name);
}

TEST_CASE("a step allocates nothing") {
    ParametersByHand<float> parameters = many_parameters<float>();
    const ParameterList<float> list = parameters.list();
    std::vector<AnyOptimizer<float>> optimizers;
    optimizers.emplace_back(SGD<float>(list));
    optimizers.emplace_back(SGD<float>(list, {.momentum = 0.9}));
    optimizers.emplace_back(Adam<float>(list, adam_w()));
    optimizers.emplace_back(RAdam<float>(list));
    const auto step = [&] {
        clip_gradients(list, 1.0);
        for (auto& optimizer : optimizers) optimizer.step(1e-3);
    };
    step();
    const long before = allocations;
    for (int t = 0; t < 8; ++t) step();
    CHECK(allocations == before);
}
