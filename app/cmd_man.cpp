#include "app/cmd_man.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "app/print.hpp"
#include "build_facts.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr std::pair<int, const char*> kExitCodes[] = {
    {0, "all prompts answered, or skipped as the job asks"},
    {1, "internal error; of diff: the answers differ"},
    {2, "usage or job file error; nothing touched"},
    {3, "input error: model folder, tokenizer, checkpoint, prompt file, or a result file that is not sound"},
    {4, "does not fit: refused before any weight is read"},
    {5, "finished, but some prompts failed (their rows say why)"},
    {6, "communication or device failure, or a lost rank; the same command goes on"},
    {7, "output error: disk full, permission, a file that is there, or that another job is writing"},
    {75, "stopped early on purpose (SIGUSR1, time limit): run the same command to go on"}};

constexpr std::pair<const char*, const char*> kVariables[] = {
    {"TPINFER_ISA", "the CPU kernels to use: scalar, avx2, avx512 or avx512-bf16; without it the fastest"},
    {"TPINFER_CUDA_GRAPHS", "0: decode steps on a GPU run without recorded graphs"},
    {"TPINFER_CUDA_AHEAD", "0: the inputs of a step on a GPU are made when the step before it has ended"},
    {"TPINFER_FIRST_PROMPTS", "so many prompts are read before loading begins, the others meanwhile; without it 65536"},
    {"CUDA_VISIBLE_DEVICES", "the GPUs that a rank may use"},
    {"NO_COLOR", "any value: no colours, unless --color always asks for them"}};

// Text as roff shows it.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += std::string("\\&") + c;
    else
      out += c;
  }
  return out;
}

std::string value_text(const OptionWords& option) {
  if (option.choices.empty()) return "\\fI" + plain(option.value) + "\\fR";
  std::string words;
  for (const std::string& choice : option.choices) words += (words.empty() ? "" : "|") + plain(choice);
  return words;
}

std::string option_head(const OptionWords& option) {
  if (option.argument)
    return option.choices.empty() ? "\\fI" + plain(option.names.front()) + "\\fR" : value_text(option);
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + ("\\fB" + plain(name) + "\\fR");
  return option.takes_value() ? names + " " + value_text(option) : names;
}

void put_options(const CommandWords& command, std::string& out) {
  for (const OptionWords& option : command.options)
    out += fmt::format(".TP\n{}\n{}\n", option_head(option), plain(option.description));
}

std::string synopsis_of(const CommandWords& command) {
  std::string line = fmt::format(".B tpinfer {}\n", command.name);
  for (const OptionWords& option : command.options) {
    if (!option.argument && !option.required) continue;
    const std::string head = option_head(option) + (option.many ? " ..." : "");
    line += option.required ? head + "\n" : "[" + head + "]\n";
  }
  return line + "[\\fIoptions\\fR]\n";
}

}  // namespace

int run_man(const std::vector<CommandWords>& commands) {
  std::string out = fmt::format(".TH TPINFER 1 \"\" \"tpinfer {}\" \"User Commands\"\n", kVersion);
  out += ".SH NAME\ntpinfer \\- batch inference with large language models over MPI ranks\n.SH SYNOPSIS\n";
  out += ".B mpirun \\-np\n.I N\n.B tpinfer\n.I job.yaml\n[\\fIoptions\\fR]\n";
  for (const CommandWords& command : commands)
    if (!command.name.empty()) out += ".br\n" + synopsis_of(command);
  out += ".SH DESCRIPTION\n";
  out += plain(
      "A job file names a Hugging Face model folder and a prompt file. Each rank reads only its own slices of the "
      "weights; "
      "texts, token ids, log probabilities and the memory of every rank go to one HDF5 file. tpinfer schema prints "
      "what a job "
      "file may hold, tpinfer info what this machine offers.\n");
  out += ".SH OPTIONS\n";
  put_options(commands.front(), out);
  out += ".SH COMMANDS\n";
  for (const CommandWords& command : commands) {
    if (command.name.empty()) continue;
    out += fmt::format(".SS tpinfer {}\n{}\n", command.name, plain(command.description));
    put_options(command, out);
  }
  out += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kExitCodes) out += fmt::format(".TP\n.B {}\n{}\n", code, plain(meaning));
  out += ".SH ENVIRONMENT\n";
  for (const auto& [name, meaning] : kVariables) out += fmt::format(".TP\n.B {}\n{}\n", name, plain(meaning));
  out += ".SH EXAMPLES\n.nf\n" +
         plain(
             "tpinfer check job.yaml\ntpinfer plan job.yaml --ranks 1..8\nmpirun -np 4 tpinfer job.yaml\n"
             "tpinfer show answers.h5 --memory\ntpinfer export answers.h5 --format jsonl -o answers.jsonl\n") +
         ".fi\n.SH SEE ALSO\nmpirun(1), srun(1), h5dump(1)\n";
  print_all(out);
  return static_cast<int>(ExitCode::ok);
}

}  // namespace tpinfer
