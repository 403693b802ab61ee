// SPDX-License-Identifier: BSD-3-Clause
//
// Parameter lists without a model, what PyTorch did to one (tests/golden/training.json), and what every optimizer must
// do: agree with it step by step, and go on from a saved state as if nothing had been.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include <normplace/detail/parallel.hpp>
#include <normplace/nn/parameter_list.hpp>

namespace normplace::test {

template <class T>
class ParametersByHand {
public:
    void add(const std::string& name, const std::vector<std::size_t>& shape, std::vector<T> value) {
        std::vector<T> gradient(value.size(), T(0));
        all_.push_back({name, shape, std::move(value), std::move(gradient)});
    }
    ParameterList<T> list() {
        ParameterList<T> list;
        for (auto& [name, shape, value, gradient] : all_) list.push_back({name, shape, value, gradient});
        return list;
    }

private:
    struct Held {
        std::string name;
        std::vector<std::size_t> shape;
        std::vector<T> value, gradient;
    };
    std::deque<Held> all_;
};

template <class T>
void set_gradients(const ParameterList<T>& list, T value) {
    for (const auto& parameter : list)
        for (T& entry : parameter.gradient) entry = value;
}
template <class T>
std::vector<T> values_of(const ParameterList<T>& list) {
    std::vector<T> all;
    for (const auto& parameter : list) all.insert(all.end(), parameter.value.begin(), parameter.value.end());
    return all;
}

/// Sizes that no block and no thread's share divides, and enough for several threads. An entry and its gradient depend
/// on nothing but its number.
template <class T>
ParametersByHand<T> many_parameters() {
    const auto fill = [at = std::size_t{0}](auto&& entries, std::size_t prime) mutable {
        for (T& entry : entries) {
            ++at;
            entry = static_cast<T>(at * at % prime) / static_cast<T>(prime / 2) - T(1);
        }
    };
    ParametersByHand<T> parameters;
    for (const std::size_t size : {70001u, 3u, 1u, 513u, 40013u})
        parameters.add("parameter" + std::to_string(size), {size}, std::vector<T>(size));
    auto fill_value = fill, fill_gradient = fill;
    for (const auto& parameter : parameters.list()) {
        fill_value(parameter.value, 1009);
        fill_gradient(parameter.gradient, 997);
    }
    return parameters;
}

inline const nlohmann::json& training_golden() {
    static const nlohmann::json json = [] {
        std::ifstream file(std::filesystem::path(NORMPLACE_GOLDEN_DIR) / "training.json");
        REQUIRE(file.good());
        return nlohmann::json::parse(file);
    }();
    return json;
}

/// Of a tensor's largest entry. In float, twelve steps of some five roundings, epsilon / 2 each; in double what is left
/// of 1 - 0.999^t in its first steps, a thousandth of whose digits are rounding.
template <class T>
constexpr double tolerance = sizeof(T) == sizeof(float) ? 30.0 * std::numeric_limits<float>::epsilon() : 1e-12;

/// `actual` has an entry for each of `expected`, PyTorch's, and they agree.
template <class T>
void check_close(const std::string& name, std::span<const T> actual, const nlohmann::json& expected) {
    REQUIRE_MESSAGE(actual.size() == expected.size(), name);
    double largest = 0.0;
    for (const double entry : expected) largest = std::max(largest, std::abs(entry));
    for (std::size_t i = 0; i < actual.size(); ++i) {
        const double ours = static_cast<double>(actual[i]), theirs = expected[i];
        CAPTURE(name);
        CAPTURE(i);
        CAPTURE(ours);
        CAPTURE(theirs);
        CHECK(std::abs(ours - theirs) <= tolerance<T> * largest);  // NaN is not close to anything
    }
}

/// The parameters that PyTorch starts from.
template <class T>
ParametersByHand<T> golden_parameters() {
    ParametersByHand<T> parameters;
    for (const auto& [name, value] : training_golden().at("start").items())
        parameters.add(name, training_golden().at("shapes").at(name).template get<std::vector<std::size_t>>(),
                       value.template get<std::vector<T>>());
    return parameters;
}
/// The gradients of step `step`, from 0.
template <class T>
void set_golden_gradients(const ParameterList<T>& list, std::size_t step) {
    const nlohmann::json& gradients = training_golden().at("gradients").at(step);
    for (const auto& parameter : list) {
        const nlohmann::json& gradient = gradients.at(parameter.name);
        for (std::size_t i = 0; i < gradient.size(); ++i) parameter.gradient[i] = gradient[i].get<T>();
    }
}

/// Every run of optimizer `name` in the file; `make(list, options)` makes ours.
template <class T, class Make>
void check_against_pytorch(const std::string& name, const Make& make) {
    const nlohmann::json& golden = training_golden();
    std::size_t runs = 0;
    for (const auto& run : golden.at("optimizers")) {
        if (run.at("optimizer") != name) continue;
        ++runs;
        INFO(name, " ", run.at("options").dump());
        ParametersByHand<T> parameters = golden_parameters<T>();
        const ParameterList<T> list = parameters.list();
        auto optimizer = make(list, run.at("options"));
        for (std::size_t step = 0; step < golden.at("learning_rates").size(); ++step) {
            CAPTURE(step);
            set_golden_gradients(list, step);
            optimizer.step(golden.at("learning_rates")[step]);
            REQUIRE(optimizer.steps() == step + 1);
            for (const auto& parameter : list)
                check_close<T>(parameter.name, parameter.value, run.at("values")[step].at(parameter.name));
        }
        const auto state = optimizer.state();
        CHECK(state.size() == run.at("state").size());
        for (const auto& tensor : state) {
            check_close<T>(tensor.name, tensor.entries, run.at("state").at(tensor.name));
            const std::string parameter = tensor.name.substr(tensor.name.find('.') + 1);
            CHECK(tensor.shape == golden.at("shapes").at(parameter).get<std::vector<std::size_t>>());
        }
    }
    CHECK(runs >= 2);
}

/// Stopped after any number of steps, its values and state copied to another optimizer, which then gets the same bits.
template <class T, class Make>
void check_resuming(const Make& make) {
    constexpr std::size_t steps = 9;
    const auto step = [](auto& optimizer, const ParameterList<T>& list, std::size_t t) {
        set_golden_gradients(list, t);
        optimizer.step(0.01 * static_cast<double>(t + 1));
    };
    for (std::size_t stop = 0; stop < steps; ++stop) {
        CAPTURE(stop);
        ParametersByHand<T> first = golden_parameters<T>(), second = golden_parameters<T>();
        const ParameterList<T> list = first.list(), other = second.list();
        auto optimizer = make(list);
        for (std::size_t t = 0; t < stop; ++t) step(optimizer, list, t);

        auto resumed = make(other);
        const auto saved = optimizer.state(), restored = resumed.state();
        REQUIRE(saved.size() == restored.size());
        for (std::size_t i = 0; i < saved.size(); ++i) {
            CHECK(saved[i].name == restored[i].name);
            std::copy(saved[i].entries.begin(), saved[i].entries.end(), restored[i].entries.begin());
        }
        for (std::size_t i = 0; i < list.size(); ++i)
            std::copy(list[i].value.begin(), list[i].value.end(), other[i].value.begin());
        resumed.resume(optimizer.steps());
        for (std::size_t t = stop; t < steps; ++t) {
            step(optimizer, list, t);
            step(resumed, other, t);
            REQUIRE(values_of(list) == values_of(other));
        }
    }
}

/// The same bits on any number of threads, which are those of one optimizer for each parameter.
template <class T, class Make>
void check_threads(const Make& make) {
    const auto run = [&](bool together) {
        ParametersByHand<T> parameters = many_parameters<T>();
        const ParameterList<T> list = parameters.list();
        if (together) {
            auto optimizer = make(list);
            for (int t = 0; t < 7; ++t) optimizer.step(0.01);
        } else {
            for (const auto& parameter : list) {
                auto optimizer = make(ParameterList<T>{parameter});
                for (int t = 0; t < 7; ++t) optimizer.step(0.01);
            }
        }
        return values_of(list);
    };
    const std::vector<T> alone = run(false);
#ifdef _OPENMP
    const int before = omp_get_max_threads();
    for (const int threads : {1, 2, 5}) {
        omp_set_num_threads(threads);
        CHECK(run(true) == alone);
    }
    omp_set_num_threads(before);
#else
    CHECK(run(true) == alone);
#endif
}

/// A NaN or an infinity in a gradient reaches the parameter's entry, and no other; no parameters are no work; a
/// gradient of another size and a learning rate that is none are refused.
template <class T, class Make>
void check_edges(const std::string& name, const Make& make) {
    ParametersByHand<T> parameters = golden_parameters<T>();
    const ParameterList<T> list = parameters.list();
    auto optimizer = make(list);
    set_gradients(list, T(1));
    list[0].gradient[2] = std::numeric_limits<T>::quiet_NaN();
    for (int t = 0; t < 7; ++t) optimizer.step(0.01);
    for (const auto& parameter : list)
        for (std::size_t i = 0; i < parameter.value.size(); ++i)
            CHECK(std::isnan(parameter.value[i]) == (&parameter == &list[0] && i == 2));

    const ParameterList<T> none;
    auto idle = make(none);
    idle.step(0.1);
    CHECK(idle.steps() == 1);
    CHECK(idle.state().empty());

    const auto refusal = [&](const char* value) {
        return name + ": learning rate is " + value + ", expected a finite number of at least 0";
    };
    CHECK_THROWS_WITH(idle.step(-0.1), refusal("-0.1").c_str());
    CHECK_THROWS_WITH(idle.step(std::nan("")), refusal("nan").c_str());
    CHECK_THROWS_WITH(idle.step(HUGE_VAL), refusal("inf").c_str());
    CHECK(idle.steps() == 1);

    ParameterList<T> torn = parameters.list();
    torn[1].gradient = torn[1].gradient.first(2);
    const std::string sentence = name + ": parameter '" + torn[1].name + "' has " +
                                 std::to_string(torn[1].value.size()) + " entries and its gradient 2";
    CHECK_THROWS_WITH(make(torn), sentence.c_str());
}

}  // namespace normplace::test
