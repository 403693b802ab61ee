// SPDX-License-Identifier: BSD-3-Clause
//
// Checkpoints: all that a training run needs to go on as if it had never stopped. A checkpoint is a safetensors file
// with the model's parameters under their own names, so that PyTorch loads it as a plain state dict, the optimizer's
// tensors under "optimizer." and their names, and the rest as strings in the metadata. Integers are written in decimal
// and doubles with the digits that bring the same bits back.
//
// Loading checks everything before it changes anything: a checkpoint that does not fit is refused with a sentence, and
// the model is as it was.
//
// This header needs nlohmann-json; normplace.hpp does not include it.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <normplace/io/safetensors.hpp>

namespace normplace {

/// What a checkpoint holds besides tensors.
struct CheckpointState {
    std::string configuration{};  ///< what the model and the run are, JSON say; a run goes on only with its own
    std::uint64_t step = 0;       ///< steps that are done
    std::uint64_t epoch = 0;      ///< epochs that are done
    std::uint64_t position = 0;   ///< batches that are done in this epoch
    std::uint64_t seed = 0;       ///< of the run's random numbers
    std::uint64_t updates = 0;    ///< that the optimizer has made
    double best_score = std::numeric_limits<double>::quiet_NaN();  ///< NaN while there is none
    std::map<std::string, std::string> notes{};                    ///< whatever else a run keeps
};

/// The parameters of a model as tensors by name, for the functions below. They point into the model.
template <class Model>
std::vector<NamedTensor<detail::ScalarOf<Model>>> named_parameters(Model& model) {
    std::vector<NamedTensor<detail::ScalarOf<Model>>> tensors;
    for_each_parameter(
        [&](const std::string& name, auto& value) {
            const auto shape = detail::shape_of(value);
            tensors.push_back({name, {shape.begin(), shape.end()}, {value.data(), value.size()}});
        },
        model);
    return tensors;
}

namespace detail {

inline constexpr std::string_view optimizer_prefix = "optimizer.", notes_prefix = "notes.";

[[noreturn]] inline void refuse_checkpoint(const std::filesystem::path& path, const std::string& sentence) {
    throw std::runtime_error("checkpoint '" + path.string() + "': " + sentence);
}

/// The numbers of a state with the keys they are written under.
template <class State>
auto counts_of(State& state) {
    using Count = decltype(&state.step);
    return std::array<std::pair<const char*, Count>, 5>{{{"step", &state.step},
                                                         {"epoch", &state.epoch},
                                                         {"position", &state.position},
                                                         {"seed", &state.seed},
                                                         {"updates", &state.updates}}};
}

template <class Number>
std::string exact_text(Number number) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

inline std::map<std::string, std::string> metadata_of(const CheckpointState& state) {
    // Some readers refuse a file that does not name PyTorch as its origin.
    std::map<std::string, std::string> metadata{{"format", "pt"}, {"configuration", state.configuration}};
    for (const auto& [key, count] : counts_of(state)) metadata[key] = exact_text(*count);
    metadata["best_score"] = exact_text(state.best_score);
    for (const auto& [key, note] : state.notes) metadata[std::string(notes_prefix) + key] = note;
    return metadata;
}

inline CheckpointState state_of(const SafetensorsFile& file) {
    const auto value = [&](const std::string& key) -> const std::string& {
        const auto found = file.metadata().find(key);
        if (found == file.metadata().end())
            refuse_checkpoint(file.path(), "its metadata has no " + key +
                                               ", so a run cannot go on from it; its parameters alone may be readable");
        return found->second;
    };
    const auto read = [&](const std::string& key, auto& number) {
        const std::string& text = value(key);
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc() || end != text.data() + text.size())
            refuse_checkpoint(file.path(), "its " + key + " is '" + text + "', which is no such number");
    };
    CheckpointState state;
    state.configuration = value("configuration");
    for (const auto& [key, count] : counts_of(state)) read(key, *count);
    read("best_score", state.best_score);
    for (const auto& [key, text] : file.metadata())
        if (key.starts_with(notes_prefix)) state.notes[key.substr(notes_prefix.size())] = text;
    return state;
}

/// Where two configurations differ, as "width is 128, this run's is 64" when both are JSON objects; empty when they
/// say the same.
inline std::string configuration_difference(const std::string& stored, const std::string& expected) {
    if (stored == expected) return "";
    const nlohmann::json a = nlohmann::json::parse(stored, nullptr, false),
                         b = nlohmann::json::parse(expected, nullptr, false);
    if (!a.is_object() || !b.is_object())
        return "its configuration is '" + stored + "', this run's is '" + expected + "'";
    std::string difference;
    std::set<std::string> keys;
    for (const auto& json : {a, b})
        for (const auto& [key, entry] : json.items()) keys.insert(key);
    const auto text = [](const nlohmann::json& json, const std::string& key) {
        return json.contains(key) ? json[key].dump(-1, ' ', true) : std::string("not given");
    };
    for (const std::string& key : keys)
        if (text(a, key) != text(b, key))
            difference += (difference.empty() ? "its " : "; its ") + key + " is " + text(a, key) + ", this run's is " +
                          text(b, key);
    return difference;
}

/// Whether types must be the same, bit for bit, or every number of the file must be one of the model's.
enum class Types { same, widened };

/// That `file` has every tensor of `tensors`, under `prefix`, as it is in the `owner`.
template <class T>
void require_tensors(const SafetensorsFile& file, const std::vector<NamedTensor<T>>& tensors, std::string_view prefix,
                     const std::string& owner, Types types) {
    for (const NamedTensor<T>& tensor : tensors) {
        const std::string name = std::string(prefix) + tensor.name;
        if (!file.contains(name))
            refuse_checkpoint(file.path(), "it has no tensor '" + name + "', which the " + owner + " has");
        if (file.shape(name) != tensor.shape)
            refuse_checkpoint(file.path(), name + " has shape " + shape_text(file.shape(name)) + ", the " + owner +
                                               "'s is " + shape_text(tensor.shape));
        const bool fits = types == Types::same ? file.dtype(name) == dtype_of<T>() : file.holds<T>(name);
        if (!fits)
            refuse_checkpoint(file.path(), name + " has type " + std::string(file.dtype(name)) + ", the " + owner +
                                               "'s is " + std::string(dtype_of<T>()));
    }
}

template <class T>
void require_no_others(const SafetensorsFile& file, const std::vector<NamedTensor<T>>& tensors, std::string_view prefix,
                       const std::string& owner) {
    std::set<std::string> known;
    for (const NamedTensor<T>& tensor : tensors) known.insert(std::string(prefix) + tensor.name);
    for (const std::string& name : file.names())
        if (name.starts_with(optimizer_prefix) == !prefix.empty() && known.count(name) == 0)
            refuse_checkpoint(file.path(), "it has a tensor '" + name + "', which the " + owner + " has not");
}

template <class T>
void read_tensors(SafetensorsFile& file, const std::vector<NamedTensor<T>>& tensors, std::string_view prefix) {
    for (const NamedTensor<T>& tensor : tensors)
        file.read(NamedTensor<T>{std::string(prefix) + tensor.name, tensor.shape, tensor.entries});
}

}  // namespace detail

/// Writes a checkpoint, atomically: whatever goes wrong, the one before stays.
/// @param parameters of the model: named_parameters(model)
/// @param optimizer  what the optimizer keeps for them, by name; may be empty
/// @throws std::invalid_argument when two tensors have the same name, a parameter's begins with "optimizer.", or text
/// is not UTF-8
/// @throws std::runtime_error when the file cannot be written
template <class T, class U>
void write_checkpoint(const std::filesystem::path& path, const std::vector<NamedTensor<T>>& parameters,
                      const std::vector<NamedTensor<U>>& optimizer, const CheckpointState& state) {
    std::vector<StoredTensor> tensors(parameters.begin(), parameters.end());
    for (const StoredTensor& parameter : tensors)
        detail::require(!parameter.name.starts_with(detail::optimizer_prefix), "write_checkpoint",
                        [&] { return "the parameter '" + parameter.name + "' would be taken for the optimizer's"; });
    for (StoredTensor tensor : optimizer) {
        tensor.name.insert(0, detail::optimizer_prefix);
        tensors.push_back(std::move(tensor));
    }
    write_safetensors(path, std::move(tensors), detail::metadata_of(state));
}

/// Brings a checkpoint back into the model and the optimizer that `parameters` and `optimizer` point into.
/// @param configuration of this run; the checkpoint's must say the same
/// @throws std::runtime_error, having changed nothing, when the file is damaged, has another configuration, or has not
/// exactly these tensors with these shapes and types; only a disk that fails while it is read leaves them half read
template <class T>
CheckpointState read_checkpoint(const std::filesystem::path& path, const std::vector<NamedTensor<T>>& parameters,
                                const std::vector<NamedTensor<T>>& optimizer, const std::string& configuration) {
    using namespace detail;
    SafetensorsFile file(path);
    CheckpointState state = state_of(file);
    const std::string difference = configuration_difference(state.configuration, configuration);
    if (!difference.empty()) refuse_checkpoint(path, difference);
    require_tensors(file, parameters, "", "model", Types::same);
    require_tensors(file, optimizer, optimizer_prefix, "optimizer", Types::same);
    require_no_others(file, parameters, "", "model");
    require_no_others(file, optimizer, optimizer_prefix, "optimizer");
    read_tensors(file, parameters, "");
    read_tensors(file, optimizer, optimizer_prefix);
    return state;
}

/// The model alone, from a checkpoint or from any safetensors file with these tensors, PyTorch's say. F16, BF16 and F32
/// may become wider; tensors under "optimizer." are passed over.
/// @throws std::runtime_error, having changed nothing, when the file is damaged or does not fit
template <class T>
void read_parameters(const std::filesystem::path& path, const std::vector<NamedTensor<T>>& parameters) {
    SafetensorsFile file(path);
    detail::require_tensors(file, parameters, "", "model", detail::Types::widened);
    detail::require_no_others(file, parameters, "", "model");
    detail::read_tensors(file, parameters, "");
}

/// Only what is not a tensor: the configuration, to make the model from.
/// @throws std::runtime_error when the file is damaged or no checkpoint
inline CheckpointState read_checkpoint_state(const std::filesystem::path& path) {
    return detail::state_of(SafetensorsFile(path));
}

}  // namespace normplace
